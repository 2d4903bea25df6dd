// Package sns is the provider of type sns: short messages to phone numbers, and push
// messages to the endpoints of mobile platforms, by Publish of Amazon SNS.
//
// It reads no receipts: SNS tells what became of a message in CloudWatch's logs only,
// and posts nothing of it by HTTP. It does not publish to topics.
package sns

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aws"
	"github.com/weirhq/weir/schemas"
)

// Type is the adapter.
var Type = provider.Type{Open: Open, Check: func(in *provider.Settings) { readSettings(in) }, Codes: &codes}

type client struct {
	account  *aws.Account
	api      *sns.Client
	from     string
	kind     string // of short messages: Transactional or Promotional
	maxPrice string
}

var priceForm = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,5})?$`)

// Open is the factory. docs/provider-sns.md has the settings.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	c := readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	c.account.Open()
	c.api = sns.NewFromConfig(c.account.Config, func(o *sns.Options) { o.BaseEndpoint = c.account.Endpoint })
	return c, nil
}

func readSettings(in *provider.Settings) *client {
	c := &client{account: aws.Read(in), from: in.Written("sender_id", ""), kind: "Transactional", maxPrice: in.Written("max_price", "")}
	if in.OneOf("sms_type", "transactional", "promotional") == "promotional" {
		c.kind = "Promotional"
	}
	if c.from != "" && !sender(c.from) {
		in.Fail("sender_id", "must have 1 to 11 letters and digits, a letter among them, or be a number such as +15005550006")
	}
	if c.maxPrice != "" && !priceForm.MatchString(c.maxPrice) {
		in.Fail("max_price", "must be US dollars, such as 0.5")
	}
	return c
}

// Close closes idle connections.
func (c *client) Close() error { return c.account.Close() }

var (
	senderForm = regexp.MustCompile(`^[A-Za-z0-9]{1,11}$`)
	numberForm = regexp.MustCompile(`^\+?[0-9]{3,15}$`)
)

func sender(s string) bool {
	return numberForm.MatchString(s) || senderForm.MatchString(s) && strings.ContainsFunc(s, func(r rune) bool { return r > '9' })
}

// Send makes one call.
func (c *client) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	in, none := c.sms(call)
	if call.Channel == schemas.ChannelPush {
		in, none = push(call)
	}
	if none != nil {
		return *none
	}
	attempt := c.account.Call()
	out, err := c.api.Publish(ctx, in, func(o *sns.Options) { o.HTTPClient = attempt })
	if err != nil {
		return attempt.Outcome(ctx, &codes, err)
	}
	if out.MessageId == nil || *out.MessageId == "" || len(*out.MessageId) > 256 {
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "bad_answer", Text: "the call was answered, and the answer has no message id"}
	}
	return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: *out.MessageId}
}

func bad(code, text string) *provider.Outcome {
	return &provider.Outcome{Kind: provider.Permanent, Code: code, Text: text}
}

// sms is a short message.
func (c *client) sms(call *provider.Call) (*sns.PublishInput, *provider.Outcome) {
	attribute := func(kind, v string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: &kind, StringValue: &v}
	}
	with := map[string]types.MessageAttributeValue{"AWS.SNS.SMS.SMSType": attribute("String", c.kind)}
	from := c.from
	if call.From != "" {
		from = call.From
	}
	switch {
	case from == "":
	case !sender(from):
		return nil, bad("bad_from", "a sender has 1 to 11 letters and digits, or is a number")
	case numberForm.MatchString(from):
		with["AWS.MM.SMS.OriginationNumber"] = attribute("String", from)
	default:
		with["AWS.SNS.SMS.SenderID"] = attribute("String", from)
	}
	if c.maxPrice != "" {
		with["AWS.SNS.SMS.MaxPrice"] = attribute("Number", c.maxPrice)
	}
	return &sns.PublishInput{PhoneNumber: &call.To, Message: &call.Content.Body, MessageAttributes: with}, nil
}

var endpointForm = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:endpoint/([A-Z_]+)/[A-Za-z0-9_.-]+/[A-Za-z0-9-]+$`)

// push is a message to a platform's endpoint. What a platform is given is its own
// form ("Publishing Amazon SNS notifications with platform-specific payloads"): text
// alone goes as text, which SNS puts into each platform's simplest form.
func push(call *provider.Call) (*sns.PublishInput, *provider.Outcome) {
	m := endpointForm.FindStringSubmatch(call.To)
	if m == nil {
		return nil, &provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "bad_recipient", Text: "the recipient is no ARN of a platform's endpoint"}
	}
	in := &sns.PublishInput{TargetArn: &call.To, Message: &call.Content.Body}
	if call.Content.Title == "" && len(call.Data) == 0 {
		return in, nil
	}
	alert := map[string]string{"title": call.Content.Title, "body": call.Content.Body}
	var own any
	switch platform := m[1]; platform {
	case "GCM":
		message := map[string]any{"notification": alert}
		if len(call.Data) > 0 {
			message["data"] = call.Data
		}
		own = map[string]any{"fcmV1Message": map[string]any{"message": message}}
	case "APNS", "APNS_SANDBOX":
		all := make(map[string]any, len(call.Data)+1)
		for k, v := range call.Data {
			all[k] = v
		}
		all["aps"] = map[string]any{"alert": alert}
		own = all
	default:
		return nil, bad("bad_platform", "only GCM and APNS take a title or data here; a body alone goes to every platform")
	}
	text, err := encode(own)
	if err == nil {
		text, err = encode(map[string]string{"default": call.Content.Body, m[1]: text})
	}
	if err != nil {
		return nil, bad("bad_content", "the message cannot be encoded")
	}
	in.Message, in.MessageStructure = &text, sdk.String("json")
	return in, nil
}

func encode(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
