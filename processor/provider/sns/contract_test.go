package sns_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider/aws/awstest"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/sns"
	"github.com/weirhq/weir/schemas"
)

// refusal is an error of the query protocol (SNS API reference, "Common errors").
func refusal(code, message string) providertest.Answer {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(message))
	status := http.StatusBadRequest
	switch code {
	case "InternalError", "InternalFailure":
		status = http.StatusInternalServerError
	case "ServiceUnavailable":
		status = http.StatusServiceUnavailable
	case "NotFound":
		status = http.StatusNotFound
	case "AuthorizationError", "InvalidSecurity", "InvalidClientTokenId":
		status = http.StatusForbidden
	case "Throttled":
		status = http.StatusTooManyRequests
	}
	return providertest.Answer{Status: status, Header: map[string]string{"Content-Type": "text/xml"}, Body: fmt.Sprintf(
		`<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>9b84bf4a</RequestId></ErrorResponse>`, code, b.String())}
}

// read understands Publish.
func read(r *http.Request, body []byte) (m providertest.Message, err error) {
	if err := awstest.Verify(r, body, "sns", awstest.Secret, time.Now()); err != nil {
		return m, err
	}
	f, err := url.ParseQuery(string(body))
	if err != nil || r.Method != http.MethodPost || f.Get("Action") != "Publish" || f.Get("Version") != "2010-03-31" {
		return m, errors.New("not Publish")
	}
	m.Body = f.Get("Message")
	if arn := f.Get("TargetArn"); arn != "" {
		m.To = arn
		if f.Get("MessageStructure") != "json" {
			return m, nil
		}
		var by map[string]string
		if err := json.Unmarshal([]byte(m.Body), &by); err != nil {
			return m, err
		}
		m.Body = by["default"]
		type alert struct{ Title, Body string }
		var a alert
		switch {
		case strings.Contains(arn, ":endpoint/GCM/"):
			var own struct {
				Message struct {
					Message struct {
						Notification alert
						Data         map[string]string
					}
				} `json:"fcmV1Message"`
			}
			if err := json.Unmarshal([]byte(by["GCM"]), &own); err != nil {
				return m, err
			}
			a, m.Data = own.Message.Message.Notification, own.Message.Message.Data
		default:
			var own map[string]json.RawMessage
			if err := json.Unmarshal([]byte(by["APNS"]), &own); err != nil {
				return m, err
			}
			var aps struct{ Alert alert }
			if err := json.Unmarshal(own["aps"], &aps); err != nil {
				return m, err
			}
			delete(own, "aps")
			a, m.Data = aps.Alert, map[string]string{}
			for k, v := range own {
				var s string
				if err := json.Unmarshal(v, &s); err != nil {
					return m, err
				}
				m.Data[k] = s
			}
		}
		if a.Body != m.Body {
			return m, fmt.Errorf("two bodies")
		}
		m.Title = a.Title
		return m, nil
	}
	m.To = f.Get("PhoneNumber")
	for i := 1; f.Has(fmt.Sprintf("MessageAttributes.entry.%d.Name", i)); i++ {
		p := fmt.Sprintf("MessageAttributes.entry.%d.", i)
		v := f.Get(p + "Value.StringValue")
		switch f.Get(p + "Name") {
		case "AWS.SNS.SMS.SenderID", "AWS.MM.SMS.OriginationNumber":
			m.From = v
		case "AWS.SNS.SMS.SMSType":
			if v != "Transactional" {
				return m, errors.New(v)
			}
		default:
			return m, errors.New(f.Get(p + "Name"))
		}
	}
	return m, nil
}

func server(t providertest.T) providertest.Server {
	var n atomic.Int64
	return providertest.HTTP{
		Take: func(r *http.Request, body []byte) (providertest.Message, providertest.Answer, error) {
			m, err := read(r, body)
			return m, providertest.Answer{Header: map[string]string{"Content-Type": "text/xml"}, Body: fmt.Sprintf(
				`<PublishResponse xmlns="https://sns.amazonaws.com/doc/2010-03-31/"><PublishResult><MessageId>567910cd-%06d</MessageId></PublishResult><ResponseMetadata><RequestId>d74b8436</RequestId></ResponseMetadata></PublishResponse>`, n.Add(1))}, err
		},
		Refuse: func(r *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
			m, err := read(r, body)
			told := fmt.Sprintf("not %s %s", m.To, m.Body)
			switch {
			case err != nil:
				return refusal("InvalidParameter", err.Error())
			case b.Forbidden:
				return refusal("InvalidClientTokenId", "The security token included in the request is invalid. "+told)
			case b.Throttle != 0:
				return refusal("Throttled", "Rate exceeded. "+told)
			}
			return refusal(b.Code, told)
		},
	}.Start(t)
}

var agent = regexp.MustCompile(`User-Agent: aws-sdk-go-v2/.*`) // has versions of everything

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "sns", Type: sns.Type, Channels: []schemas.Channel{schemas.ChannelSMS, schemas.ChannelPush},
		To: map[schemas.Channel]string{
			schemas.ChannelSMS:  "+4915123456789",
			schemas.ChannelPush: "arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/app/5e3e9847-3183-3f18-a7e8-671c3a57d4b3",
		},
		Settings: func(endpoint string) map[string]any {
			return map[string]any{"region": awstest.Region, "access_key_id": awstest.KeyID, "secret_access_key": "${SNS_SECRET}", "endpoint": endpoint}
		},
		Env:         map[string]string{"SNS_SECRET": awstest.Secret},
		Start:       server,
		UnknownCode: "SomethingNew",
		Lacks:       []providertest.Lack{providertest.LacksRetryAfter, providertest.LacksIdempotency, providertest.LacksReference},
		Receipts:    "none: SNS writes them to CloudWatch only",
		Idempotency: "none: a call that is made again is sent again",
		Stable:      func(wire string) string { return agent.ReplaceAllString(wire, "User-Agent: aws-sdk-go-v2/…") },
	})
}
