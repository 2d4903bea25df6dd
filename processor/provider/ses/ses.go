// Package ses is the provider of type ses: e-mail by Amazon SES, with SendEmail of
// its API version 2 and the whole letter (Raw), so that what arrives is what package
// letter has written; SES replaces Message-ID and Date.
//
// Its receipts are SES's events, which Amazon SNS posts: listen.go.
package ses

import (
	"context"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sesv2"
	"github.com/aws/aws-sdk-go-v2/service/sesv2/types"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aws"
	"github.com/weirhq/weir/processor/provider/letter"
	"github.com/weirhq/weir/schemas"
)

// Type is the adapter.
var Type = provider.Type{Open: Open, Listen: Listen, Check: check, Codes: &codes}

// settings are all of them: Listen, which reads some, takes the others.
var settings = slices.Concat(aws.Settings, letter.Settings, []string{"configuration_set", "topic_arn"})

// tagName is the message tag that holds the reference. SES takes letters, digits, _
// and - there, at most 256 of them.
const (
	tagName = "weir-reference"
	maxTag  = 256
)

type client struct {
	account *aws.Account
	api     *sesv2.Client
	set     *string
	style   *letter.Style
	now     func() time.Time
}

// Open is the factory. docs/provider-ses.md has the settings.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	c := readSettings(in, deps.PublicURL)
	if err := in.Err(); err != nil {
		return nil, err
	}
	c.account.Open()
	c.api = sesv2.NewFromConfig(c.account.Config, func(o *sesv2.Options) { o.BaseEndpoint = c.account.Endpoint })
	return c, nil
}

func readSettings(in *provider.Settings, publicURL string) *client {
	c := &client{now: time.Now, style: letter.Read(in, publicURL), account: aws.Read(in)}
	if set := in.Text("configuration_set", ""); set != "" {
		c.set = &set
	}
	in.Others("topic_arn") // Listen reads it
	return c
}

func check(in *provider.Settings) {
	readSettings(in, "")
	topicOf(in)
}

// Close closes idle connections.
func (c *client) Close() error { return c.account.Close() }

// Send makes one call.
func (c *client) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	l, none := c.style.Write(call, c.now())
	if none != nil {
		return *none
	}
	if l.UTF8 {
		return provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "no_smtputf8", Text: "Amazon SES takes no addresses outside ASCII"}
	}
	in := &sesv2.SendEmailInput{
		Content:              &types.EmailContent{Raw: &types.RawMessage{Data: l.Bytes}},
		Destination:          &types.Destination{ToAddresses: []string{l.To}},
		ConfigurationSetName: c.set,
	}
	if c.style.ReturnPath != "" {
		in.FeedbackForwardingEmailAddress = &c.style.ReturnPath
	}
	// A letter without a tenant is Weir's own (an alert): nobody looks for its
	// receipts.
	if ref := call.Reference().String(); call.Tenant != "" && len(ref) <= maxTag {
		in.EmailTags = []types.MessageTag{{Name: sdk.String(tagName), Value: &ref}}
	}
	attempt := c.account.Call()
	out, err := c.api.SendEmail(ctx, in, func(o *sesv2.Options) { o.HTTPClient = attempt })
	if err != nil {
		return attempt.Outcome(ctx, &codes, err)
	}
	if out.MessageId == nil || *out.MessageId == "" || len(*out.MessageId) > 256 {
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "bad_answer", Text: "the call was answered, and the answer has no message id"}
	}
	return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: *out.MessageId}
}
