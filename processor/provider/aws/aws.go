// Package aws is what the adapters for Amazon's services have in common: the
// account, one call of the SDK, and what came of it.
//
// The SDK signs (SigV4) and encodes. It does not retry here, does not read files or
// the environment by itself, and its requests go through httpcall, so that it is
// known whether one was written. Credentials are those of the settings, or the
// environment's AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; roles
// of a machine, a container or a web identity are not looked up.
package aws

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
)

// Settings are those that Read asks for.
var Settings = []string{"region", "access_key_id", "secret_access_key", "session_token", "endpoint", "proxy"}

// Account is who calls, where.
type Account struct {
	Config   sdk.Config
	Endpoint *string // nil is the service's own in the region
	calls    httpcall.Config
	http     *httpcall.Client
}

var regionForm = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)

// Read reads the rest of a provider's settings, of which the adapter reads its own:
//
//	region             AWS_REGION of the environment when absent
//	access_key_id      AWS_ACCESS_KEY_ID
//	secret_access_key  AWS_SECRET_ACCESS_KEY
//	session_token      AWS_SESSION_TOKEN
//	endpoint, proxy
func Read(in *provider.Settings) *Account {
	region, id := in.TextOr("region", "AWS_REGION"), in.TextOr("access_key_id", "AWS_ACCESS_KEY_ID")
	secret, token := in.TextOr("secret_access_key", "AWS_SECRET_ACCESS_KEY"), in.TextOr("session_token", "AWS_SESSION_TOKEN")
	if region == "" {
		in.Fail("region", "is missing, and the environment has no AWS_REGION: write such as eu-central-1")
	} else if !regionForm.MatchString(region) {
		in.Fail("region", "is no region, such as eu-central-1")
	}
	if id == "" {
		in.Fail("access_key_id", "is missing, and the environment has no AWS_ACCESS_KEY_ID")
	}
	if secret == "" {
		in.Fail("secret_access_key", "is missing, and the environment has no AWS_SECRET_ACCESS_KEY")
	}
	a := &Account{calls: httpcall.ConfigOf(in), Config: sdk.Config{
		Region: region, Credentials: credentials.NewStaticCredentialsProvider(id, secret, token),
		Retryer: func() sdk.Retryer { return sdk.NopRetryer{} }, Logger: logging.Nop{},
	}}
	if in.Any("endpoint") != nil {
		a.Endpoint = new(httpcall.Address(in, "endpoint", "").String())
	}
	return a
}

// Open makes it able to call. Close is called after the last call ended.
func (a *Account) Open() { a.http = httpcall.New(a.calls) }

// Close closes idle connections.
func (a *Account) Close() error { return a.http.Close() }

// Call is one call: the HTTP client that the SDK is given for it.
type Call struct{ watched *httpcall.Watched }

// Call begins one.
func (a *Account) Call() *Call { return &Call{watched: a.http.Watch()} }

// Do makes the request. The SDK reads an answer to its end; it gets no more than
// httpcall reads.
func (c *Call) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.watched.Do(req)
	if err == nil {
		resp.Body = bounded{io.LimitReader(resp.Body, httpcall.MaxBody), resp.Body}
	}
	return resp, err
}

type bounded struct {
	io.Reader
	io.Closer
}

// Outcome says what a call that failed means.
func (c *Call) Outcome(ctx context.Context, codes *provider.Codes, err error) provider.Outcome {
	status := 0 // the SDK makes an empty answer up where there was none
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && answer.Response != nil && answer.Response.Response != nil {
		status = answer.HTTPStatusCode()
	}
	if status == 0 {
		return c.watched.Outcome(ctx, err)
	}
	if status < 300 {
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "bad_answer", Text: "the call was answered, and the answer is not the service's"}
	}
	code := ""
	if e, ok := errors.AsType[smithy.APIError](err); ok && e.ErrorCode() != "UnknownError" {
		code = e.ErrorCode()
	}
	if _, known := codes.Of(code); known {
		return codes.Outcome(code)
	}
	o := codes.Outcome(code)
	if code == "" {
		o.Code = "http_" + strconv.Itoa(status)
	}
	switch {
	case status == http.StatusTooManyRequests:
		o.Kind = provider.Throttled
	case status == http.StatusServiceUnavailable, status == http.StatusRequestTimeout, httpcall.Unauthorized(status):
		o.Kind = provider.Transient
	case status >= 500, status < 400:
		o.Kind, o.MayBeReceived = provider.Transient, true
	}
	return o
}
