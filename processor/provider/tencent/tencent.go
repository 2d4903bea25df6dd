package tencent

import (
	"context"
	"net/url"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// Type is tencent-sms.
var Type = provider.Type{Open: open, Listen: poster.Listen, Check: check, Codes: &codes, Template: checkTemplate}

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
//	receipt_secret  see poster
//
// All but proxy's absence and the region's form are text that may hold ${NAME} or
// be file:PATH.
func open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	c, calls := readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	c.http = httpcall.New(calls)
	return c, nil
}

func check(in *provider.Settings) {
	readSettings(in)
	hooksecret.Given(in)
}

func readSettings(in *provider.Settings) (*client, httpcall.Config) {
	c := &client{
		id:      in.Required("secret_id", "the SecretId of an API key"),
		key:     in.Required("secret_key", "the SecretKey of an API key"),
		region:  in.Text("region", "ap-guangzhou"),
		address: httpcall.Host(in, "endpoint", "https://sms.tencentcloudapi.com"),
		own: defaults{
			app:    in.Required("app_id", "the application's SdkAppId, such as \"1400006666\""),
			sign:   in.Text("sign_name", ""),
			sender: in.Text("sender_id", ""),
		},
		now: time.Now,
	}
	in.Word("secret_id", c.id)
	in.Word("secret_key", c.key)
	in.Word("region", c.region)
	in.Others(hooksecret.Setting)
	return c, httpcall.ConfigOf(in)
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
