package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

var keysCommand = command{
	name:    "keys",
	args:    "create|rotate|revoke NAME [--tenant T] [--scopes send,read] [--class CLASS] [--on-unavailable allow] [--overlap 24h] [--quiet|--json] [flags]",
	summary: "Make, replace and revoke API keys.",
	details: `create   makes a key and prints its secret, once: Weir keeps only its hash
rotate   gives a key a new secret; the one before is good for --overlap longer
revoke   removes a key; within a second no instance takes it any more

A secret is printed on stdout, with --quiet nothing else is. weir get keys shows what keys there are. Scopes: send
(messages), read (what became of the tenant's own messages), policy (everything in it but keys), keys (make and change
keys that may do no more, and revoke any), operate (see how Weir and its providers are); admin is policy, keys and operate.
A key acts on its tenant only. A key of the tenant default acts on all with policy and keys, and only such a key can
operate. Over HTTP a key grants only what it has; this command grants anything. A --test key's messages go to
providers of type simulated only.`,
	example: `weir keys create shop --tenant acme --scopes send,read
  weir keys create ci --scopes send,read --test --expires 90d --quiet > key.txt
  weir keys rotate shop --overlap 24h
  weir keys revoke shop`,
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("create", "rotate", "revoke")
		words := c.leading(1)
		fs := flag.NewFlagSet("keys", flag.ContinueOnError)
		key := schemas.Key{}
		fs.StringVar(&key.Tenant, "tenant", schemas.DefaultTenant, "create: whose key it is")
		scopes := fs.String("scopes", "send,read", "create: what it may do: "+strings.Join(schemas.KeyScopes, ", "))
		fs.BoolVar(&key.Test, "test", false, "create: for trying out, sends to simulated providers only")
		expires := fs.String("expires", "", "create: for how long it is good (90d), or until when (RFC 3339); for ever when empty")
		fs.StringVar(&key.Class, "class", "", "create: the class of messages that name none, and whose template names none")
		fs.StringVar(&key.OnUnavailable, "on-unavailable", "", "create: allow answers POST /v1/decisions while Kafka is unreachable, and limits do not hold for it then; needs http.degraded_journal")
		fs.StringVar(&key.Prefer, "prefer", "", "create: the Prefer header of calls that have none, such as wait=1")
		overlap := schemas.Duration(revise.DefaultOverlap)
		fs.TextVar(&overlap, "overlap", overlap, "rotate: how long the secret before is still good; 0s ends it at once")
		quiet := fs.Bool("quiet", false, "print the secret and nothing else")
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		var other string // a flag of another verb
		fs.Visit(func(f *flag.Flag) {
			if of, _, ok := strings.Cut(f.Usage, ": "); ok && (of == "create" || of == "rotate") && of != verb {
				other = f.Name
			}
		})
		switch {
		case verb == "":
			return usagef("say create, rotate or revoke")
		case other != "":
			return usagef("--%s is not for %s, and nothing was done: weir apply and PUT /v1/keys/NAME change a key", other, verb)
		case len(words) != 1:
			return usagef("name one key, such as weir keys %s shop", verb)
		case *quiet && *asJSON:
			return usagef("--quiet and --json exclude one another")
		}
		key.Name = words[0]
		key.Scopes = strings.FieldsFunc(*scopes, func(r rune) bool { return r == ',' || r == ' ' })
		if *expires != "" {
			until, err := lifetime(*expires, time.Now())
			if err != nil {
				return usagef("--expires: %v", err)
			}
			key.ExpiresAt = until
		}
		var secret string
		edit := func(have *schemas.Revision) (next *schemas.Policy, err error) {
			now := schemas.MillisOf(time.Now())
			switch verb {
			case "create":
				next, secret, err = revise.CreateKey(&have.Policy, key, now)
			case "rotate":
				next, secret, err = revise.RotateKey(&have.Policy, key.Name, time.Duration(overlap), now)
			default:
				next, err = without(&have.Policy, schemas.ResourceKey, key.Name)
			}
			return next, err
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			r, err := k.editor(s).Revise(ctx, author(), revise.Tries, edit, func(line string) { fmt.Fprintln(c.stderr, line) })
			if err != nil {
				return err
			}
			out := keyReport{Name: key.Name, Secret: secret, Revision: r.Now.Revision}
			for i := range r.Next.Keys {
				if k := r.Next.Keys[i].WithoutHashes(); k.Name == key.Name {
					out.Key = &k
				}
			}
			return c.printKey(verb, &out, *quiet, *asJSON)
		})
	},
}

// keyReport is what a command about a key prints.
type keyReport struct {
	Name     string       `json:"name"`
	Secret   string       `json:"secret,omitempty"` // nowhere else
	Revision int64        `json:"revision"`
	Key      *schemas.Key `json:"key,omitempty"` // absent when revoked
}

func (c *call) printKey(verb string, r *keyReport, quiet, asJSON bool) error {
	switch {
	case asJSON:
		return c.printJSON(r)
	case quiet && r.Secret == "":
		return nil
	case quiet:
		_, err := fmt.Fprintln(c.stdout, r.Secret)
		return err
	case verb == "revoke":
		_, err := fmt.Fprintf(c.stdout, "Key %s is revoked. Revision %d is in force.\n", r.Name, r.Revision)
		return err
	}
	fmt.Fprintln(c.stdout, r.Secret)
	fmt.Fprintf(c.stderr, "\nThis is the secret of key %s (tenant %s, scopes %s), shown this once: Weir keeps only its hash. Put it where the program finds it, not\ninto its source. It goes with each call as\n\n  Authorization: Bearer %s…\n",
		r.Name, r.Key.Tenant, strings.Join(r.Key.Scopes, " "), r.Secret[:len(schemas.LivePrefix)])
	if p := r.Key.Previous; p != nil {
		fmt.Fprintf(c.stderr, "\nThe secret before is good until %s.\n", p.ExpiresAt)
	} else if verb == "rotate" {
		fmt.Fprint(c.stderr, "\nThe secret before is good no more.\n")
	}
	if r.Key.ExpiresAt != 0 {
		fmt.Fprintf(c.stderr, "\nThe key ends at %s.\n", r.Key.ExpiresAt)
	}
	_, err := fmt.Fprintf(c.stderr, "\nRevision %d is in force.\n", r.Revision)
	return err
}

// lifetime reads how long from now on, or until when.
func lifetime(text string, now time.Time) (schemas.Millis, error) {
	if d, err := schemas.ParseDuration(text); err == nil {
		if d <= 0 {
			return 0, fmt.Errorf("%s is no time from now on", text)
		}
		return schemas.MillisOf(now).Add(time.Duration(d)), nil
	}
	until, err := schemas.ParseMillis(text)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a duration such as 90d nor a time of RFC 3339", text)
	}
	return until, nil
}
