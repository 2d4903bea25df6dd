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

func TestKeysHaveAClassAndWhatIsUndecided(t *testing.T) {
	b := newBench(t)
	b.does([]string{"apply", "-f", b.file("classes: [{name: verify}]\n")}, "Revision 1")
	b.does([]string{"keys", "create", "login", "--class", "verify", "--on-unavailable", "allow", "--quiet"})
	b.does([]string{"get", "key", "login"}, "class: verify\n", "on_unavailable: allow\n")
	b.fails([]string{"keys", "create", "x", "--class", "other"}, `there is no class "other"`)
	b.fails([]string{"keys", "create", "x", "--on-unavailable", "deny"}, "write allow, or leave it out")
	b.misused([]string{"keys", "rotate", "login", "--class", "verify"}, "--class is not for rotate, and nothing was done")
	b.misused([]string{"keys", "create", "x", "--overlap", "1h"}, "--overlap is not for create")
}

// A file that is older than the keys neither revives revoked ones nor removes new ones, but
// where that is asked for by name; and a rollback never does.
func TestKeysSurviveTheirPolicy(t *testing.T) {
	b := newBench(t)
	b.does([]string{"apply", "-f", b.file(twoProviders)}, "Revision 1")
	b.does([]string{"keys", "create", "old", "--quiet"})
	before := b.file(b.does([]string{"get", "revision", "2"}))
	b.does([]string{"keys", "revoke", "old"}, "Revision 3")
	b.does([]string{"keys", "create", "new", "--quiet"})
	keys := b.does([]string{"get", "keys"})
	unchanged := func() {
		t.Helper()
		if now := b.does([]string{"get", "keys"}); now != keys {
			t.Errorf("keys:\n%swant\n%s", now, keys)
		}
	}
	b.does([]string{"delete", "route", "china"}, "Revision 5")
	b.does([]string{"rollback", "2", "--dry-run"}, "+ route china\n", "Nothing was changed (--dry-run); revision 5")
	if out := b.does([]string{"rollback", "2"}, "+ route china\n", "Revision 6 is in force."); strings.Contains(out, "key") {
		t.Errorf("a rollback says of keys: %s", out)
	}
	unchanged()
	b.does([]string{"rollback", "2"}, "Nothing to change. Revision 6")
	b.fails([]string{"rollback", "9"}, "there is no revision 9; the newest is 6")

	b.does([]string{"apply", "-f", b.file(twoProviders), "--prune"}, "Nothing to change. Revision 6", "keys only as --prune=keys): key new")
	b.does([]string{"apply", "-f", b.file(twoProviders), "--prune=keys"}, "Nothing to change. Revision 6") // it says nothing of keys
	unchanged()
	const revives = "Warning: key old: a secret of it was revoked or replaced before, and works again with this policy"
	for _, args := range [][]string{{"--prune", "--dry-run"}, {"--dry-run"}, {"--dry-run", "--json"}} { // the file asks for it
		out := b.does(append([]string{"apply", "-f", before}, args...), strings.TrimPrefix(revives, "Warning: "))
		if strings.Contains(out, "sha256") || strings.Contains(out, "key new:") {
			t.Errorf("%v: it shows a hash, or warns of a key that was never revoked: %s", args, out)
		}
	}
	b.does([]string{"apply", "-f", before, "--prune", "--dry-run"}, "+ key old\n", "): key new")
	b.does([]string{"apply", "-f", before, "--prune=keys"}, "+ key old\n- key new\n", revives, "Revision 7")
	if out := b.does([]string{"apply", "-f", before}, "Nothing to change. Revision 7"); strings.Contains(out, "Warning") {
		t.Errorf("it works, and that is not new: %s", out)
	}
	b.does([]string{"apply", "-f", b.file(twoProviders + "keys: []\n"), "--prune=keys"}, "- key old\n", "Revision 8")
}

// What came to be since stays; what comes back may not refer to what is gone.
func TestRollbackMeetsTheRest(t *testing.T) {
	b := newBench(t)
	b.does([]string{"apply", "-f", b.file(twoProviders + "tenants: [{name: acme}]\n")}, "Revision 1")
	b.does([]string{"apply", "-f", b.file("routes: [{name: china, match: {tenant: acme, channel: sms}, to: [{provider: one}]}]\n")}, "Revision 2")
	b.does([]string{"apply", "-f", b.file(twoProviders + "tenants: [{name: other}]\n"), "--prune"}, "- tenant acme\n", "Revision 3")
	b.fails([]string{"rollback", "2"}, "does not fit the tenants, keys, alerts and inputs of today")
	b.fails([]string{"rollback", "0"}, "no provider would be left for [sms], and all messages of that kind would be rejected (no_route)\nTo roll back nevertheless, add --accept-loss")
	code, stdout, stderr := weir(t, append([]string{"rollback", "0", "--dry-run"}, b.flags...)...)
	if code != exitError || !strings.Contains(stdout, "- provider one\n") || !strings.Contains(stdout, "WARNING: sms would be unroutable") || !strings.Contains(stderr, "To roll back nevertheless, add --accept-loss") {
		t.Errorf("a dry run of what is refused: exit %d, %s%s", code, stdout, stderr)
	}
	b.does([]string{"rollback", "0", "--dry-run", "--accept-loss"}, "- provider one\n")
	b.does([]string{"rollback", "0", "--accept-loss"}, "- provider one\n", "(1 unchanged)", "Revision 4")
	b.does([]string{"get", "tenants"}, "name: other")
}

// A secret that a rotation replaced works again where a file has it, and that is said.
func TestRotatedSecretComesBack(t *testing.T) {
	b := newBench(t)
	b.does([]string{"apply", "-f", b.file(twoProviders)}, "Revision 1")
	b.does([]string{"keys", "create", "shop", "--quiet"})
	before := b.file(b.does([]string{"get", "keys"}))
	b.does([]string{"keys", "rotate", "shop", "--overlap", "0s", "--quiet"})
	if out := b.does([]string{"apply", "-f", b.file(b.does([]string{"get", "keys"}))}, "Nothing to change"); strings.Contains(out, "Warning") {
		t.Errorf("nothing comes back: %s", out)
	}
	b.does([]string{"apply", "-f", before}, "Warning: key shop: a secret of it was revoked or replaced before")
}
