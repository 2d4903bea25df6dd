package aliyun

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// Type is aliyun-sms.
var Type = provider.Type{Open: open, Listen: poster.Listen, Check: check, Codes: &codes, Template: checkTemplate}

const (
	action  = "SendSms"
	version = "2017-05-25"
)

var settings = []string{"access_key", "access_secret", "sign_name", "region", "endpoint", "proxy", hooksecret.Setting}

type client struct {
	key, secret string
	sign        string // where neither the message nor the template names one
	address     *url.URL
	http        *httpcall.Client
	now         func() time.Time
	nonce       func() string
}

// open is the factory. Settings:
//
//	access_key      the AccessKey's id; required
//	access_secret   its secret; required
//	sign_name       the signature of messages that bring none
//	region          whose address is called: cn-… (default cn-hangzhou) or ap-southeast-1
//	endpoint        another address, http or https
//	proxy           http or https; no proxy is used without it
//	receipt_secret  see poster
//
// access_key, access_secret, endpoint and proxy may hold ${NAME} or be file:PATH.
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
		key:     in.Required("access_key", "the AccessKey's id"),
		secret:  in.Required("access_secret", "the AccessKey's secret"),
		sign:    in.Text("sign_name", ""),
		address: httpcall.Host(in, "endpoint", address(in)),
		now:     time.Now,
		nonce:   func() string { return strings.ReplaceAll(uuid.NewString(), "-", "") },
	}
	in.Word("access_key", c.key)
	in.Word("access_secret", c.secret)
	in.Others(hooksecret.Setting)
	return c, httpcall.ConfigOf(in)
}

const standard = "https://dysmsapi.aliyuncs.com"

// address is what is called where no other is set. Of Aliyun's regions, the page on its
// endpoints (https://help.aliyun.com/document_detail/68360.html) names one address for
// those of the mainland and Hong Kong and has said different things at different
// times of the others but Singapore, so that those have to be written out.
func address(in *provider.Settings) string {
	region := in.Text("region", "cn-hangzhou")
	switch {
	case strings.HasPrefix(region, "cn-"), in.Any("endpoint") != nil:
	case region == "ap-southeast-1":
		return "https://dysmsapi.ap-southeast-1.aliyuncs.com"
	default:
		in.Fail("region", "is not one whose address Weir knows (cn-…, ap-southeast-1): write the address as settings.endpoint")
	}
	return standard
}

// Close closes idle connections.
func (c *client) Close() error { return c.http.Close() }

// Send makes one request.
func (c *client) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	params, refusal := parameters(call, c.sign)
	if refusal != nil {
		return *refusal
	}
	req, err := c.request(params)
	if err != nil { // the address was checked at open
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_request", Text: "the request cannot be made"}
	}
	a, none := c.http.Do(ctx, req)
	if a == nil {
		return none
	}
	return decide(a, c.now())
}
