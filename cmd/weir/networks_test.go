package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestProvidersOnPrivateNetworks: an adapter connects to a private address only where
// the operator opened its network; what the policy says makes no difference.
func TestProvidersOnPrivateNetworks(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var came atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-ended })
	host, port, _ := net.SplitHostPort(ln.Addr().String())
	url := "http://" + ln.Addr().String()
	for typ, p := range map[string]schemas.Provider{
		"http":        {Channels: []schemas.Channel{schemas.ChannelSMS}, Settings: map[string]any{"url": url}},
		"http, proxy": {Type: "http", Channels: []schemas.Channel{schemas.ChannelSMS}, Settings: map[string]any{"url": "http://example.com/", "proxy": url}},
		"twilio":      {Channels: []schemas.Channel{schemas.ChannelSMS}, Settings: map[string]any{"endpoint": url, "account_sid": "AC0123456789abcdef0123456789abcdef", "auth_token": "x", "from": "+15005550006"}},
		"sns":         {Channels: []schemas.Channel{schemas.ChannelSMS}, Settings: map[string]any{"endpoint": url, "region": "eu-central-1", "access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "x"}},
		"smtp":        {Channels: []schemas.Channel{schemas.ChannelEmail}, Settings: map[string]any{"host": host, "port": port, "tls": "none", "from": "a@example.com"}},
		"smpp":        {Channels: []schemas.Channel{schemas.ChannelSMS}, Settings: map[string]any{"endpoint": ln.Addr().String(), "system_id": "a", "password": "b"}},
	} {
		if p.Name = "p"; p.Type == "" {
			p.Type = typ
		}
		call := &provider.Call{ID: "018f0000-0000-7000-8000-000000000000", Attempt: 1, To: "+8613800000000", Channel: p.Channels[0], Content: content.Content{Body: "x", Subject: "x"}}
		if call.Channel == schemas.ChannelEmail {
			call.To, call.From = "b@example.com", "a@example.com"
		}
		reaches := func(deps provider.Deps) bool {
			t.Helper()
			before := came.Load()
			a, err := providerTypes.Open(p, deps)
			if err != nil {
				t.Fatalf("%s: %v", typ, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			o := a.Send(ctx, call)
			for deps.Private != nil && came.Load() == before && ctx.Err() == nil { // a session of SMPP begins by itself
				o = a.Send(ctx, call)
			}
			if err := a.Close(); err != nil {
				t.Errorf("%s: %v", typ, err)
			}
			if deps.Private == nil && (o.MayBeReceived || o.Kind != provider.Transient) {
				t.Errorf("%s: %+v", typ, o)
			}
			return came.Load() > before
		}
		if reaches(provider.Deps{}) {
			t.Errorf("%s connects to a private address", typ)
		}
		if !reaches(provider.Deps{Private: outbound.Loopback}) {
			t.Errorf("%s does not connect where it may", typ)
		}
	}
}
