package tencent

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weirhq/weir/processor/provider"
)

// maxSession is how many bytes a SessionContext has at most: "注意长度需小于512字节"
// (less than 512). https://cloud.tencent.com/document/api/382/55981
const maxSession = 511

// message is the body of SendSms.
type message struct {
	PhoneNumberSet   []string
	SmsSdkAppID      string `json:"SmsSdkAppId"`
	TemplateID       string `json:"TemplateId"`
	SignName         string `json:",omitempty"`
	TemplateParamSet []string
	SessionContext   string `json:",omitempty"`
	SenderID         string `json:"SenderId,omitempty"`
}

// messageOf is SendSms's body for one call, or why it is not made.
func messageOf(call *provider.Call, own defaults) (message, *provider.Outcome) {
	refuse := func(code, format string, args ...any) (message, *provider.Outcome) {
		return message{}, &provider.Outcome{Kind: provider.Permanent, Code: code, Text: fmt.Sprintf(format, args...)}
	}
	if len(call.Own) == 0 {
		if call.Template == "" {
			return refuse("no_template", "the message has no template: Tencent sends its own templates only, never a text")
		}
		return refuse("no_template", "template %s does not say which of Tencent's templates it is: write id into its providers", call.Template)
	}
	t, err := readTemplate(call.Own)
	if err != nil {
		return refuse("bad_template", "template %s: %v", call.Template, err)
	}
	m := message{
		PhoneNumberSet: []string{call.To}, SmsSdkAppID: own.app, TemplateID: t.id,
		TemplateParamSet: make([]string, 0, len(t.params)), // an empty set, not null
	}
	for _, name := range t.params {
		v, ok := call.Vars[name]
		if !ok {
			return refuse("missing_variable", "the message has no variable %s, which Tencent's template takes", name)
		}
		m.TemplateParamSet = append(m.TemplateParamSet, v)
	}
	// What the message itself asks for comes first, and the policy's default last. On
	// the mainland a message's sender is its signature, abroad its SenderId.
	if strings.HasPrefix(call.To, "+86") {
		m.SignName = cmp.Or(call.From, t.sign, own.sign)
		if m.SignName == "" {
			return refuse("no_signature", "neither the message, its template nor the provider's settings name a signature (sign_name): Tencent sends none to the mainland without")
		}
	} else {
		m.SignName = cmp.Or(t.sign, own.sign)
		m.SenderID = cmp.Or(call.From, own.sender)
	}
	// Without the reference the receipt is found by Tencent's own id.
	m.SessionContext = call.Reference().Within(maxSession)
	return m, nil
}
