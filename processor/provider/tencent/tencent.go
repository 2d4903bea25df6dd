package tencent

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// Type is tencent-sms.
var Type = provider.Type{Open: open, Listen: listen, Codes: &codes, Template: checkTemplate}

const (
	service = "sms"
	action  = "SendSms"
	version = "2021-01-11"
)

var settings = []string{"secret_id", "secret_key", "app_id", "sign_name", "sender_id", "region", "endpoint", "proxy", hooksecret.Setting}

type client struct {
	id, key string
	region  string
	address *url.URL
	own     defaults
	http    *httpcall.Client
	now     func() time.Time
}

// defaults are what the settings say of every message.
type defaults struct {
	app    string // SmsSdkAppId
	sign   string // where neither the message nor the template names a signature
	sender string // SenderId of messages abroad that bring none
}

// open is the factory. Settings:
//
//	secret_id       SecretId of an API key; required
//	secret_key      its SecretKey; required
//	app_id          SmsSdkAppId of the application; required
//	sign_name       the signature of messages that bring none
//	sender_id       SenderId of messages to numbers abroad that bring none
//	region          ap-guangzhou
//	endpoint        https://sms.tencentcloudapi.com
//	proxy           http or https; no proxy is used without it
//	receipt_secret  see listen
//
// All but proxy's absence and the region's form are text that may hold ${NAME} or
// be file:PATH.
func open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	s := provider.SettingsOf(p, deps.Getenv)
	c := &client{
		id:     s.Required("secret_id", "the SecretId of an API key"),
		key:    s.Required("secret_key", "the SecretKey of an API key"),
		region: s.Text("region", "ap-guangzhou"),
		own: defaults{
			app:    s.Required("app_id", "the application's SdkAppId, such as \"1400006666\""),
			sign:   s.Text("sign_name", ""),
			sender: s.Text("sender_id", ""),
		},
		now: time.Now,
	}
	for name, v := range map[string]string{"secret_id": c.id, "secret_key": c.key, "region": c.region} {
		if !plain(v) {
			s.Fail(name, "holds what cannot stand in a header, such as a space")
		}
	}
	c.address = address(s, deps.Getenv)
	s.Any("proxy")
	s.Any(hooksecret.Setting)
	if err := s.Err(); err != nil {
		return nil, err
	}
	cfg, err := httpcall.ConfigOf(p, deps.Getenv)
	if err != nil {
		return nil, err
	}
	c.http = httpcall.New(cfg)
	return c, nil
}

func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' })
}

func address(s *provider.Settings, getenv func(string) string) *url.URL {
	v := s.Any("endpoint")
	if v == nil {
		return &url.URL{Scheme: "https", Host: "sms.tencentcloudapi.com", Path: "/"}
	}
	u, err := httpcall.Address("endpoint", v, getenv)
	if err != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		s.Fail("endpoint", "is not an http or https address of a scheme and a host only, such as https://sms.tencentcloudapi.com")
		return nil
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
}

// Close closes idle connections.
func (c *client) Close() error { return c.http.Close() }

// Send makes one request.
func (c *client) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	m, refusal := messageOf(call, c.own)
	if refusal != nil {
		return *refusal
	}
	req, err := c.request(m)
	if err != nil { // the address was checked at open, and texts can be encoded
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_request", Text: "the request cannot be made"}
	}
	a, none := c.http.Do(ctx, req)
	if a == nil {
		return none
	}
	return decide(a, c.now())
}
