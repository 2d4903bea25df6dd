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
var Type = provider.Type{Open: open, Listen: listen, Codes: &codes, Template: checkTemplate}

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
//	receipt_secret  see listen
//
// access_key, access_secret, endpoint and proxy may hold ${NAME} or be file:PATH.
func open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	s := provider.SettingsOf(p, deps.Getenv)
	c := &client{
		key:    s.Required("access_key", "the AccessKey's id"),
		secret: s.Required("access_secret", "the AccessKey's secret"),
		sign:   s.Text("sign_name", ""),
		now:    time.Now,
		nonce:  func() string { return strings.ReplaceAll(uuid.NewString(), "-", "") },
	}
	for name, v := range map[string]string{"access_key": c.key, "access_secret": c.secret} {
		if !plain(v) {
			s.Fail(name, "holds what is no part of a key, such as a space")
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

// plain reports whether text can stand in a header's list: keys are letters and
// digits, but only what would break the header is refused.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' })
}

// address is what is called. Of Aliyun's regions, the page on its endpoints
// (https://help.aliyun.com/document_detail/68360.html) names one address for
// those of the mainland and Hong Kong and has said different things at different
// times of the others but Singapore, so that those have to be written out.
func address(s *provider.Settings, getenv func(string) string) *url.URL {
	region := s.Text("region", "cn-hangzhou")
	if v := s.Any("endpoint"); v != nil {
		u, err := httpcall.Address("endpoint", v, getenv)
		if err != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			s.Fail("endpoint", "is not an http or https address of a scheme and a host only, such as https://dysmsapi.aliyuncs.com")
			return nil
		}
		return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	}
	switch {
	case strings.HasPrefix(region, "cn-"):
		return &url.URL{Scheme: "https", Host: "dysmsapi.aliyuncs.com", Path: "/"}
	case region == "ap-southeast-1":
		return &url.URL{Scheme: "https", Host: "dysmsapi.ap-southeast-1.aliyuncs.com", Path: "/"}
	}
	s.Fail("region", "is not one whose address Weir knows (cn-…, ap-southeast-1): write the address as settings.endpoint")
	return nil
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
