package revise_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

var noon = schemas.MillisOf(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))

func TestKeysLife(t *testing.T) {
	p, first, err := revise.CreateKey(&schemas.Policy{}, schemas.Key{Name: "shop", Tenant: "default", Scopes: []string{"send"}, Test: true}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if test, ok := schemas.IsSecret(first); !ok || !test || p.Keys[0].Hash != schemas.HashSecret(first) || p.Validate() != nil {
		t.Fatalf("%+v, %v", p.Keys[0], p.Validate())
	}
	q, second, err := revise.RotateKey(p, "shop", time.Hour, noon)
	if err != nil {
		t.Fatal(err)
	}
	k := q.Keys[0]
	if test, ok := schemas.IsSecret(second); !ok || !test || second == first || k.Hash != schemas.HashSecret(second) ||
		k.Previous.Hash != schemas.HashSecret(first) || k.Previous.ExpiresAt != noon.Add(time.Hour) || q.Validate() != nil {
		t.Errorf("%+v, %v", k, q.Validate())
	}
	if p.Keys[0].Hash != schemas.HashSecret(first) || p.Keys[0].Previous != nil {
		t.Error("the policy before was written to")
	}
	r, third, err := revise.RotateKey(q, "shop", 0, noon)
	if err != nil || r.Keys[0].Previous != nil || r.Keys[0].Hash != schemas.HashSecret(third) {
		t.Errorf("without an overlap: %+v, %v", r.Keys[0], err)
	}
}

func TestKeysRefusals(t *testing.T) {
	have := &schemas.Policy{Keys: []schemas.Key{{Name: "shop"}, {Name: "ended", ExpiresAt: noon}}}
	create := func(k schemas.Key) error { _, _, err := revise.CreateKey(have, k, noon); return err }
	rotate := func(name string, d time.Duration) error {
		_, _, err := revise.RotateKey(have, name, d, noon)
		return err
	}
	have.Keys[0].Tenant, have.Keys[0].Scopes = "acme", []string{"send", "read"}
	if err := create(schemas.Key{Name: "shop", Tenant: "other"}); err == nil || !strings.Contains(err.Error(), "it is of tenant acme with the scopes send, read") {
		t.Errorf("it does not say what there is: %v", err)
	}
	for _, c := range []struct {
		name      string
		got, want error
	}{
		{"a second of its name", create(schemas.Key{Name: "shop"}), revise.ErrKeyThere},
		{"ended at creation", create(schemas.Key{Name: "new", ExpiresAt: noon}), revise.ErrKeyPast},
		{"ends later", create(schemas.Key{Name: "new", ExpiresAt: noon + 1}), nil},
		{"nobody's", rotate("nobody", 0), revise.ErrNoKey},
		{"ended", rotate("ended", 0), revise.ErrKeyEnded},
		{"negative", rotate("shop", -1), revise.ErrBadOverlap},
		{"too long", rotate("shop", revise.MaxOverlap+1), revise.ErrBadOverlap},
		{"longest", rotate("shop", revise.MaxOverlap), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestKeepsAdmin(t *testing.T) {
	admin := schemas.Key{Name: "a", Tenant: "default", Scopes: []string{"send", "admin"}}
	ended := schemas.Key{Name: "b", Tenant: "default", Scopes: []string{"admin"}, ExpiresAt: noon}
	both := schemas.Key{Name: "d", Tenant: "default", Scopes: []string{"policy", "keys"}}
	half := schemas.Key{Name: "e", Tenant: "default", Scopes: []string{"keys"}}
	tenants := schemas.Key{Name: "f", Tenant: "acme", Scopes: []string{"admin"}}
	plain := schemas.Key{Name: "c", Scopes: []string{"send", "read"}}
	of := func(keys ...schemas.Key) *schemas.Policy { return &schemas.Policy{Keys: keys} }
	for _, c := range []struct {
		name       string
		have, next *schemas.Policy
		want       error
	}{
		{"removed", of(admin, plain), of(plain), revise.ErrLastKey},
		{"one is left that has ended", of(admin, ended), of(ended), revise.ErrLastKey},
		{"one is left", of(admin, admin), of(admin), nil},
		{"none before", of(plain, ended), of(), nil},
		{"stays", of(admin), of(admin), nil},
		{"one with both scopes is left", of(admin, both), of(both), nil},
		{"one with one scope is left", of(admin, half), of(half), revise.ErrLastKey},
		{"one of another tenant is left", of(admin, tenants), of(tenants), revise.ErrLastKey},
	} {
		if err := revise.KeepsAdmin(c.have, c.next, noon); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
