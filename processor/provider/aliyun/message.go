package aliyun

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirhq/weir/processor/provider"
)

// maxOutID is how many characters an OutId has at most: "长度小于256的字符串"
// (less than 256). https://help.aliyun.com/document_detail/55284.html
const maxOutID = 255

// parameters are SendSms's for one call, or why it is not made.
func parameters(call *provider.Call, sign string) (map[string]string, *provider.Outcome) {
	refuse := func(code, format string, args ...any) (map[string]string, *provider.Outcome) {
		return nil, &provider.Outcome{Kind: provider.Permanent, Code: code, Text: fmt.Sprintf(format, args...)}
	}
	if len(call.Own) == 0 {
		if call.Template == "" {
			return refuse("no_template", "the message has no template: Aliyun sends its own templates only, never a text")
		}
		return refuse("no_template", "template %s does not say which of Aliyun's templates it is: write code into its providers", call.Template)
	}
	own, err := readTemplate(call.Own)
	if err != nil {
		return refuse("bad_template", "template %s: %v", call.Template, err)
	}
	values, missing := own.values(call.Vars)
	if missing != "" {
		return refuse("missing_variable", "the message has no variable %s, which Aliyun's template takes", missing)
	}
	// What the message itself asks for comes first, and the policy's default last.
	sign = cmp.Or(call.From, own.sign, sign)
	if sign == "" {
		return refuse("no_signature", "neither the message, its template nor the provider's settings name a signature (sign_name): Aliyun sends none without")
	}
	out := map[string]string{"PhoneNumbers": number(call.To), "SignName": sign, "TemplateCode": own.code}
	if len(values) > 0 {
		text, err := object(values)
		if err != nil {
			return refuse("bad_content", "the message cannot be encoded")
		}
		out["TemplateParam"] = text
	}
	// Without the reference the receipt is found by Aliyun's own id.
	if ref := call.Reference().Within(maxOutID); ref != "" {
		out["OutId"] = ref
	}
	return out, nil
}

// number writes a canonical recipient as Aliyun wants it: numbers of the mainland
// without their country's code, others with it but without +.
func number(to string) string {
	if national, ok := strings.CutPrefix(to, "+86"); ok {
		return national
	}
	return strings.TrimPrefix(to, "+")
}

// object is a JSON object of texts, with its names in order. Aliyun takes no other
// values than texts.
func object(values map[string]string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(values); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
