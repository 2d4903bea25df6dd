package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestKeys(t *testing.T) {
	b := newBench(t)
	// Before there is any topic: weir run asks for a key first of all.
	code, stdout, stderr := weir(t, append([]string{"keys", "create", "shop", "--scopes", "send,read", "--expires", "90d"}, b.flags...)...)
	live := strings.TrimSuffix(stdout, "\n")
	if test, ok := schemas.IsSecret(live); code != exitOK || !ok || test {
		t.Fatalf("code %d, %d bytes on stdout\n%s", code, len(stdout), stderr)
	}
	for _, want := range []string{"shown this once", "Authorization: Bearer weir_live_…", "The key ends at 20", "Revision 1"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	if strings.Contains(stderr, live) {
		t.Error("the secret is on stderr too")
	}
	code, stdout, stderr = weir(t, append([]string{"keys", "create", "ci", "--test", "--quiet"}, b.flags...)...)
	if test, ok := schemas.IsSecret(strings.TrimSuffix(stdout, "\n")); code != exitOK || !ok || !test || stderr != "" {
		t.Errorf("--quiet: code %d, %d bytes, %q", code, len(stdout), stderr)
	}
	keys := func() map[string]schemas.Key {
		t.Helper()
		out := b.does([]string{"get", "keys", "--json"})
		var p schemas.Policy
		if err := json.Unmarshal([]byte(out), &p); err != nil {
			t.Fatal(err)
		}
		byName := map[string]schemas.Key{}
		for _, k := range p.Keys {
			byName[k.Name] = k
		}
		if strings.Contains(out, live) {
			t.Error("the policy holds the secret")
		}
		return byName
	}
	if k := keys()["shop"]; k.Hash != schemas.HashSecret(live) || k.ExpiresAt == 0 {
		t.Errorf("%+v", k)
	}
	var r keyReport
	if err := json.Unmarshal([]byte(b.does([]string{"keys", "rotate", "shop", "--overlap", "1h", "--json"})), &r); err != nil {
		t.Fatal(err)
	}
	if k := keys()["shop"]; k.Hash != schemas.HashSecret(r.Secret) || k.Previous.Hash != schemas.HashSecret(live) || r.Key.Previous.ExpiresAt != k.Previous.ExpiresAt || r.Key.Hash != "" {
		t.Errorf("%+v", k)
	}
	b.fails([]string{"keys", "create", "shop"}, "there is such a key already")
	b.fails([]string{"keys", "create", "past", "--expires", "2020-01-01T00:00:00Z"}, "the end of the key is in the past")
	b.fails([]string{"keys", "create", "x", "--tenant", "nobody"}, `there is no tenant "nobody"`)
	b.fails([]string{"keys", "create", "x", "--scopes", "write"}, `"write" is not known`)
	b.fails([]string{"keys", "rotate", "nobody"}, "there is no such key")
	b.fails([]string{"keys", "rotate", "shop", "--overlap", "32d"}, "an overlap is 0s to 31d")
	b.does([]string{"keys", "revoke", "shop"}, "Key shop is revoked. Revision 4 is in force.")
	b.fails([]string{"keys", "revoke", "shop"}, `there is no key "shop"; there are ci`)
	if _, there := keys()["shop"]; there {
		t.Error("it is still there")
	}
	// What get prints is a file for apply, hashes and all.
	b.does([]string{"apply", "-f", b.file(b.does([]string{"get", "keys"})), "--prune"}, "Nothing to change")
}
