package ses_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	netmail "net/mail"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider/aws/awstest"
	"github.com/weirhq/weir/processor/provider/letter"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/ses"
	"github.com/weirhq/weir/processor/provider/smtp/smtptest"
	"github.com/weirhq/weir/schemas"
)

// sendEmail is the body of SendEmail (SES API v2 reference).
type sendEmail struct {
	Content struct {
		Raw struct{ Data []byte }
	}
	Destination          struct{ ToAddresses []string }
	ConfigurationSetName string
	EmailTags            []struct{ Name, Value string }
}

// status is that of an error, as far as the API reference says it.
func status(code string) int {
	switch code {
	case "InternalFailure", "InternalServiceErrorException":
		return http.StatusInternalServerError
	case "ServiceUnavailable":
		return http.StatusServiceUnavailable
	case "TooManyRequestsException":
		return http.StatusTooManyRequests
	case "UnrecognizedClientException", "AccessDeniedException":
		return http.StatusForbidden
	case "NotFoundException":
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// refusal is an error of REST and JSON.
func refusal(code, message string) providertest.Answer {
	body, _ := json.Marshal(map[string]string{"message": message})
	return providertest.Answer{Status: status(code), Header: map[string]string{"Content-Type": "application/json", "x-amzn-ErrorType": code}, Body: string(body)}
}

// server speaks SendEmail.
func server(t providertest.T) providertest.Server {
	var n atomic.Int64
	read := func(r *http.Request, body []byte) (m providertest.Message, err error) {
		if err := awstest.Verify(r, body, "ses", awstest.Secret, time.Now()); err != nil {
			return m, err
		}
		if r.Method != http.MethodPost || r.URL.Path != "/v2/email/outbound-emails" || r.Header.Get("Content-Type") != "application/json" {
			return m, fmt.Errorf("%s %s", r.Method, r.URL.Path)
		}
		var in sendEmail
		if err := json.Unmarshal(body, &in); err != nil {
			return m, err
		}
		if len(in.Destination.ToAddresses) != 1 || in.ConfigurationSetName != "weir" || len(in.EmailTags) != 1 || in.EmailTags[0].Name != "weir-reference" || !regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`).MatchString(in.EmailTags[0].Value) {
			return m, errors.New("not what was expected")
		}
		l, err := smtptest.Read(in.Content.Raw.Data)
		if err != nil {
			return m, err
		}
		address := func(header string) string {
			a, err := netmail.ParseAddress(l.Header.Get(header))
			if err != nil {
				return ""
			}
			return a.Address
		}
		return providertest.Message{
			To: in.Destination.ToAddresses[0], From: address("From"), ReplyTo: address("Reply-To"), Reference: in.EmailTags[0].Value,
			Subject: letter.Plain(l.Header.Get("Subject")), Body: l.Text, HTML: l.HTML,
		}, nil
	}
	return providertest.HTTP{
		Take: func(r *http.Request, body []byte) (providertest.Message, providertest.Answer, error) {
			m, err := read(r, body)
			return m, providertest.Answer{Header: map[string]string{"Content-Type": "application/json"}, Body: fmt.Sprintf(`{"MessageId":"010701886abb-%08d-000000"}`, n.Add(1))}, err
		},
		Refuse: func(r *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
			m, err := read(r, body)
			told := fmt.Sprintf("not %s %s", m.To, strings.TrimSpace(m.Body))
			switch {
			case err != nil:
				return refusal("BadRequestException", err.Error())
			case b.Forbidden:
				return refusal("UnrecognizedClientException", "The security token included in the request is invalid. "+told)
			case b.Throttle != 0:
				return refusal("TooManyRequestsException", "Maximum sending rate exceeded. "+told)
			}
			return refusal(b.Code, told)
		},
	}.Start(t)
}

func settings(endpoint string) map[string]any {
	return map[string]any{
		"region": awstest.Region, "access_key_id": awstest.KeyID, "secret_access_key": "${SES_SECRET}", "from": "weir@weir.example",
		"configuration_set": "weir", "endpoint": endpoint, "topic_arn": "arn:aws:sns:eu-central-1:123456789012:ses-events",
	}
}

var raw = regexp.MustCompile(`"Data":"([A-Za-z0-9+/=]+)"`)

var agent = regexp.MustCompile(`User-Agent: aws-sdk-go-v2/.*`) // has versions of everything

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "ses", Type: ses.Type, Channels: []schemas.Channel{schemas.ChannelEmail},
		To:          map[schemas.Channel]string{schemas.ChannelEmail: "zoe@weir.example"},
		Settings:    settings,
		Env:         map[string]string{"SES_SECRET": awstest.Secret},
		Optional:    []string{"topic_arn", "configuration_set"},
		Start:       server,
		UnknownCode: "SomethingNewException",
		Lacks:       []providertest.Lack{providertest.LacksRetryAfter, providertest.LacksIdempotency},
		Receipts:    "SES events by SNS, signed (versions 1 and 2)",
		Idempotency: "none: a call that is made again is sent again",
		Stable: func(wire string) string {
			wire = raw.ReplaceAllStringFunc(wire, func(s string) string {
				b, err := base64.StdEncoding.DecodeString(raw.FindStringSubmatch(s)[1])
				if err != nil {
					return s
				}
				text := regexp.MustCompile(`(?m)^Date: .*$`).ReplaceAllString(strings.ReplaceAll(string(b), "\r\n", "\n"), "Date: DATE")
				return `"Data": in base64, the letter` + "\n\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n\n"
			})
			return agent.ReplaceAllString(wire, "User-Agent: aws-sdk-go-v2/…")
		},
	})
}
