package twilio_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/twilio"
	"github.com/weirhq/weir/schemas"
)

const (
	account = "AC00112233445566778899aabbccddeeff"
	token   = "hunter2-0123456789abcdef"
)

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "twilio", Type: twilio.Type, Channels: schemas.ProviderTypes["twilio"],
		To: map[schemas.Channel]string{schemas.ChannelSMS: "+15005550009", schemas.ChannelVoice: "+15005550010"},
		Settings: func(endpoint string) map[string]any {
			return map[string]any{"endpoint": endpoint, "account_sid": account, "auth_token": "${TWILIO_TOKEN}", "from": "+15005550006", "language": "en-GB", "voice": "Polly.Amy"}
		},
		Env:      map[string]string{"TWILIO_TOKEN": token},
		Optional: []string{"language", "voice"},
		Start:    start, UnknownCode: "29999",
		Lacks:       []providertest.Lack{providertest.LacksIdempotency},
		Receipts:    "StatusCallback, signed",
		Idempotency: "none: a call that is made again is sent again",
	})
}

// start starts Twilio's API as its documentation has it: the pages of the Messages
// and Calls resources, and "Twilio's Response" of the REST API.
func start(t providertest.T) providertest.Server {
	var ids atomic.Int64
	parse := func(r *http.Request, body []byte) (url.Values, string, error) {
		user, pass, _ := r.BasicAuth()
		if user != account || pass != token || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			return nil, "", fmt.Errorf("%s %s", r.Method, r.URL)
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, "", err
		}
		for name, v := range form {
			switch name {
			case "To", "From", "Body", "MessagingServiceSid", "StatusCallback", "Twiml":
			default:
				return nil, "", fmt.Errorf("parameter %s", name)
			}
			if len(v) != 1 {
				return nil, "", fmt.Errorf("parameter %s %d times", name, len(v))
			}
		}
		switch r.URL.Path {
		case "/2010-04-01/Accounts/" + account + "/Messages.json":
			return form, "SM", nil
		case "/2010-04-01/Accounts/" + account + "/Calls.json":
			return form, "CA", nil
		}
		return nil, "", fmt.Errorf("no such resource: %s", r.URL.Path)
	}
	reply := func(status int, v map[string]any) providertest.Answer {
		b, _ := json.Marshal(v)
		return providertest.Answer{Status: status, Header: map[string]string{"Content-Type": "application/json"}, Body: string(b)}
	}
	return providertest.HTTP{
		Take: func(r *http.Request, body []byte) (providertest.Message, providertest.Answer, error) {
			form, kind, err := parse(r, body)
			if err != nil {
				return providertest.Message{}, providertest.Answer{}, err
			}
			m := providertest.Message{To: form.Get("To"), From: form.Get("From"), Body: form.Get("Body")}
			if kind == "CA" {
				var doc struct {
					XMLName xml.Name `xml:"Response"`
					Say     struct {
						Language string `xml:"language,attr"`
						Voice    string `xml:"voice,attr"`
						Text     string `xml:",chardata"`
					}
				}
				if err := xml.Unmarshal([]byte(form.Get("Twiml")), &doc); err != nil || doc.Say.Language != "en-GB" || doc.Say.Voice != "Polly.Amy" {
					return m, providertest.Answer{}, fmt.Errorf("TwiML: %+v, %w", doc, err)
				}
				m.Body = doc.Say.Text
			}
			back, err := url.Parse(form.Get("StatusCallback"))
			if err != nil || back.Host != "weir.example" || back.Path != "/v1/receipts/theirs" {
				return m, providertest.Answer{}, fmt.Errorf("StatusCallback %s", form.Get("StatusCallback"))
			}
			m.Reference = back.Query().Get("ref")
			return m, reply(http.StatusCreated, map[string]any{"sid": fmt.Sprintf("%s%032d", kind, ids.Add(1)), "account_sid": account, "status": "queued", "error_code": nil, "error_message": nil, "to": m.To}), nil
		},
		Refuse: func(r *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
			form, _, _ := parse(r, body)
			code := b.Code
			switch {
			case b.Forbidden:
				code = "20003"
			case b.Throttle != 0:
				code = "20429"
			}
			n, _ := strconv.Atoi(code)
			status := map[string]int{"20003": 401, "20403": 403, "20404": 404, "20429": 429, "20500": 500, "20503": 503}[code]
			if status == 0 {
				status = http.StatusBadRequest
			}
			a := reply(status, map[string]any{"code": n, "message": "The 'To' number " + form.Get("To") + " is refused: " + form.Get("Body"), "more_info": "https://www.twilio.com/docs/errors/" + code, "status": status})
			if b.Throttle > 0 {
				a.Header["Retry-After"] = strconv.Itoa(int(b.Throttle / time.Second))
			}
			return a
		},
	}.Start(t)
}
