package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/alert"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var alertsCommand = command{
	name:    "alerts",
	args:    "test NAME [--json] [flags]",
	summary: "Send a test notice by one of the policy's alerts, and show what came back.",
	details: `The notice goes from this machine and with this environment: ${NAME} of an alert's address is a variable here, and
file:PATH a file here. It counts in no at_most. An e-mail goes by the alert's provider, from here too.`,
	exits: []string{
		"0 the receiver took it",
		"1 it did not, or the policy has no such alert",
		"2 wrong usage",
	},
	example: "weir alerts test oncall",
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("test")
		words := c.leading(1)
		fs := flag.NewFlagSet("alerts", flag.ContinueOnError)
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		switch {
		case verb == "":
			return usagef("say test")
		case len(words) != 1:
			return usagef("name one alert, such as weir alerts test oncall")
		}
		s, err := load()
		if err != nil {
			return err
		}
		w, err := policy.Watch(ctx, topics.Names{Prefix: s.Prefix}.Config(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
		if err != nil {
			return err
		}
		defer w.Close()
		all := w.Latest().Policy.Alerts
		i := slices.IndexFunc(all, func(a schemas.Alert) bool { return a.Name == words[0] })
		if i < 0 {
			return fmt.Errorf("the policy in force has no alert %q: weir get alerts shows what there is", words[0])
		}
		networks, err := outbound.ParseNetworks(s.Private)
		if err != nil {
			return err
		}
		client := outbound.New(outbound.Config{Allow: networks, Agent: "weir/" + version})
		defer client.Close()
		deps, err := s.deps(c.getenv, nil)
		if err != nil {
			return err
		}
		sender := alert.Sender{Client: client, Getenv: c.getenv, Secrets: s.Secrets, Policy: w.Latest, Open: mailers(deps)}
		began := time.Now()
		answer, verdict, err := sender.Send(ctx, &all[i], alert.TestNotice(words[0], began))
		if err != nil {
			return err
		}
		took := time.Since(began).Round(time.Millisecond)
		body := strings.TrimSpace(answer.Body)
		if *asJSON {
			err = c.printJSON(struct {
				Alert  string `json:"alert"`
				Taken  bool   `json:"taken"`
				Status int    `json:"status"`
				Answer string `json:"answer"`
				TookMS int64  `json:"took_ms"`
			}{words[0], verdict == alert.Taken, answer.Code, body, took.Milliseconds()})
		} else if answer.Code == 0 { // an e-mail
			_, err = fmt.Fprintf(c.stdout, "%s: %s after %v; look whether it arrives\n", words[0], body, took)
		} else {
			_, err = fmt.Fprintf(c.stdout, "%s answered %d after %v: %q\n", words[0], answer.Code, took, body)
		}
		if verdict != alert.Taken {
			return errors.Join(err, fmt.Errorf("it was not taken: 2xx means taken, and redirects are not followed"))
		}
		return err
	},
}

// mailers opens the providers that alerts by e-mail are sent with.
func mailers(deps provider.Deps) func(schemas.Provider) (provider.Provider, error) {
	return func(p schemas.Provider) (provider.Provider, error) {
		// There is nothing to unsubscribe from, and so no need for a public address.
		p.Settings = maps.Clone(p.Settings)
		delete(p.Settings, "unsubscribe_secret")
		deps.PublicURL = ""
		return providerTypes.Open(p, deps)
	}
}

// devNetworks are what weir dev's alerts may call unless the environment says
// otherwise: whoever tries alerts out has a receiver here.
var devNetworks = []string{"127.0.0.0/8", "::1"}
