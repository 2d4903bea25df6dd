package ses

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// amazons is the public key of SimpleNotificationService-7506a1e35b36ef5a444dd1a8e7cc3ed8.pem,
// by which SNS signed the messages of TestAmazonsOwnSignatures: its modulus, from the
// tests of the AWS SDK for Java 2 (aws/aws-sdk-java-v2,
// services-custom/sns-message-manager/src/test/resources/…/internal).
func amazons(t *testing.T) *rsa.PublicKey {
	t.Helper()
	n, err := base64.StdEncoding.DecodeString("oW1TUPgxGk+Vjfpfm4NIhHheuumeiwxXNSia+JTZdKHXF0ErJCrGWAjFXaeCPyJJPc1snJEUzJJkBmIpqQ/m07DAj+Qv7CSFNBPWNjl445eVYnXpKqp0S/VXROTeNUb5LO0v+TKWHEpgrJmh38HL/Nhr8ds5vQqwOV7uytmaoc0UDwkUj5h0x0K+BA+t7oxPqk6T4EGdE74JnKwHNPGe+We2c7Ne2kzXN2IQLUMfVqMDfLoh5JIHPjjTXbcCr1mTZp25sTB2LWHNvdVgj9StTYeE1eVzcoyHm80Cg66kwjdCLQK9cXugZdwWEt0hvVxwMtKt3pCE80LCsqXLmiunUw==")
	if err != nil {
		t.Fatal(err)
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}
}

// TestAmazonsOwnSignatures are of version 1 and 2, with and without a subject, and of a
// subscription: test-notification-signature-v2.json, test-notification-with-subject.json
// and test-subscription-confirmation.json of the repository named at amazons.
func TestAmazonsOwnSignatures(t *testing.T) {
	subject := "My message subject"
	const arn = "arn:aws:sns:us-west-2:131990247566:dongie-standard-topic"
	const token = "2336412f37fb687f5d51e6e2425929f52e8e353134fe72d55ef8b330217d82da14007cbccefffd35b695feb8f0294d01fd9644f41e1ddfad261519a2c0bac743ff375eeb64530147d2da57f3acc54739da14c8dbd48a9d58ce996eff0d498ea6b4b9f58720d8959b52b99b8de148081720d7da17434e376614a00c992e7823e4"
	for name, p := range map[string]post{
		"version 2": {Type: "Notification", MessageID: "9d2c5580-b61d-550c-8583-37a582870907", TopicArn: arn, Message: "This message uses signature version 2.", Timestamp: "2026-03-06T20:00:26.893Z", SignatureVersion: "2",
			Signature: "kGNJ7FIM5DJxRv9bdoSJBty2WHpADFWrJ0ZQU/A2sALy6tBE5hqfUvPRlklTJ+PACFMguoFOO7W6ac/Bs4gR+JBRFhx4598X8/HWzrmaLrtB2f7nzViHbpzYN+u+OewXhxjj2lNsu0bLKv6fogkACytDIOhjZylbfJoPphDYAB7T3Ila7u+K3m2wLHH4k1cPYKyBf5FI/kAoQAVsY6qFHeb6CWfHsdM98I2gwyEvwJSzW0iyYBfqckmthQwH3Ex53jrhQlZylXFDYmstSJAdvbLeGqIUxKyk+O25wYgBjbbbeR+2qE2UCGEQrk1Bq018wmTxdHZmDhoBjJXiGmFkfg=="},
		"version 1, a subject": {Type: "Notification", MessageID: "26858270-545e-5848-82a2-e05566af3dcf", TopicArn: arn, Subject: &subject, Message: "Hello! This message has a subject.", Timestamp: "2026-03-06T19:53:21.424Z", SignatureVersion: "1",
			Signature: "jvNSgHVOF9KUOKI3bmQZhURD0kDN6txhfjiyuvnV95Dw6b2SRa7nq3AhM8agP0KUCIrRgKHqUlN6K2XBA35Lzkx1eI5RT0oXIN00pvvzGxSz0ddnuSGmDJM7bd/b1vl2RlLjz+KvkhzEtspxLnxjLsGl2EpOmztt+um7owb4475sOLdGTx1QiFV/8HqB2J0DyjeWdRZvu7Xpsf1Yd2rgmijFoz8x89Vw8pIksjczr4q16pxdh/XKWjbN2uPoC+3EeYdljL8KUvLYH9ueHSs5E9qq2iLdze4+FtANnE73XRvvSGE0KI+FGOvz1igest6qon3g1/CVy4mq3n19TsCSmA=="},
		"a subscription": {Type: "SubscriptionConfirmation", MessageID: "f3f2fc87-c426-4c2f-9044-b55890c0939c", Token: token, TopicArn: arn, Timestamp: "2026-03-06T19:31:32.895Z", SignatureVersion: "1",
			Message:      "You have chosen to subscribe to the topic " + arn + ".\nTo confirm the subscription, visit the SubscribeURL included in this message.",
			SubscribeURL: "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn=" + arn + "&Token=" + token,
			Signature:    "Ce2Ax8UbEq0RrVH7gsjP9WZ9bzif7dUkAY4OH99Pv7FSrvs8cK+uiH3a6ig54rXWUnZRUejk8K6KeK5Q80O9iJp8KbPRKdQ0PkJ3YASdabhfK0e7evC05YR2pFoS6nNaqNzT7HrR1d1Z9iLoFxluo2Dzb7kWVB7e9jp/y+ZBXRzRIaZgscM84kahBc6QgXOFJA1/PFA4cB5qaa6tBcUFtTE63o9vJ4wMmKk93W9MoszC+dNJeVFr8VHmt3toR+3JauBCZnGdgXgsDhni4PduSfWJJxEpuOK41iYf1hW+xFNFFsv46siTFiHdHiYDfI7/VlaY4spMgkq3EndRr7rHzQ=="},
	} {
		if !p.verified(amazons(t)) {
			t.Errorf("%s: Amazon's own signature does not fit", name)
		}
		p.Message += " "
		if p.verified(amazons(t)) {
			t.Errorf("%s: another message fits too", name)
		}
	}
}

const arn = "arn:aws:sns:eu-central-1:123456789012:ses-events"

var came = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

// sns signs as SNS does, and serves its certificates.
type sns struct {
	key   *rsa.PrivateKey
	certs map[string]*outbound.Answer // by address; others are 404

	mu    sync.Mutex
	asked []string
	err   error
}

var keys = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

const certURL = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-1.pem"

func newSNS(t *testing.T) *sns {
	t.Helper()
	s := &sns{key: keys(), certs: make(map[string]*outbound.Answer)}
	s.serve(t, certURL, "sns.amazonaws.com", came.Add(-time.Hour), came.Add(time.Hour))
	return s
}

func (s *sns) serve(t *testing.T, address, name string, from, until time.Time) {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &s.key.PublicKey, s.key)
	if err != nil {
		t.Fatal(err)
	}
	s.certs[address] = &outbound.Answer{Code: 200, Body: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

func (s *sns) get(_ context.Context, address string) (*outbound.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, address)
	if s.err != nil {
		return nil, s.err
	}
	if a := s.certs[address]; a != nil {
		return a, nil
	}
	return &outbound.Answer{Code: 404}, nil
}

// sign signs a post and returns it as a request.
func (s *sns) sign(t *testing.T, p post) *provider.Hook {
	t.Helper()
	var sig []byte
	var err error
	if p.SignatureVersion == "1" {
		sum := sha1.Sum([]byte(p.signed()))
		sig, err = rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA1, sum[:])
	} else {
		sum := sha256.Sum256([]byte(p.signed()))
		sig, err = rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Signature = base64.StdEncoding.EncodeToString(sig)
	return request(t, p)
}

func request(t *testing.T, p post) *provider.Hook {
	t.Helper()
	body, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return &provider.Hook{Method: http.MethodPost, Header: http.Header{"Content-Type": {"text/plain; charset=UTF-8"}}, Body: body, At: came}
}

func (s *sns) listener(t *testing.T) *listener {
	t.Helper()
	top := newTopic(arn, slog.New(slog.DiscardHandler))
	top.get, top.now = s.get, func() time.Time { return came }
	return &listener{name: "mail", sns: top}
}

func notification(message string) post {
	return post{Type: "Notification", MessageID: "1", TopicArn: arn, Message: message, Timestamp: "2026-11-22T03:59:59.000Z", SignatureVersion: "2", SigningCertURL: certURL}
}

// TestForgedPosts: whatever is not surely of SNS, for this topic, is refused, and
// nothing is fetched from elsewhere.
func TestForgedPosts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*post) // before it is signed
		after   func(*post) // and then
		fetches int
	}{
		{"another topic", func(p *post) { p.TopicArn = "arn:aws:sns:eu-central-1:123456789012:theirs" }, nil, 0},
		{"another account's topic of the same name", func(p *post) { p.TopicArn = "arn:aws:sns:eu-central-1:999999999999:ses-events" }, nil, 0},
		{"a certificate from elsewhere", func(p *post) { p.SigningCertURL = "https://evil.example/SimpleNotificationService-1.pem" }, nil, 0},
		{"a host that only begins so", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com.evil.example/a.pem" }, nil, 0},
		{"a host that only ends so", func(p *post) {
			p.SigningCertURL = "https://evil.example/https://sns.eu-central-1.amazonaws.com/a.pem"
		}, nil, 0},
		{"a user before the host", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com@evil.example/a.pem" }, nil, 0},
		{"another region", func(p *post) {
			p.SigningCertURL = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem"
		}, nil, 0},
		{"a bucket under Amazon's name", func(p *post) { p.SigningCertURL = "https://sns.s3.amazonaws.com/a.pem" }, nil, 0},
		{"another port", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com:8443/a.pem" }, nil, 0},
		{"not encrypted", func(p *post) { p.SigningCertURL = strings.Replace(certURL, "https", "http", 1) }, nil, 0},
		{"no .pem", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com/?Action=x" }, nil, 0},
		{"a query behind it", func(p *post) { p.SigningCertURL = certURL + "?x" }, nil, 0},
		{"a path that climbs", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com/a/../b.pem" }, nil, 0},
		{"no such certificate", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com/other.pem" }, nil, 1},
		{"a certificate for somebody else", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com/sqs.pem" }, nil, 1},
		{"a certificate that is over", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com/old.pem" }, nil, 1},
		{"garbage for a certificate", func(p *post) { p.SigningCertURL = "https://sns.eu-central-1.amazonaws.com/garbage.pem" }, nil, 1},
		{"another text", nil, func(p *post) { p.Message = strings.Replace(p.Message, "Delivery", "Bounce", 1) }, 1},
		{"another time", nil, func(p *post) { p.Timestamp = "2026-11-22T04:00:00.000Z" }, 1},
		{"a subject that was not signed", nil, func(p *post) { p.Subject = new("x") }, 1},
		{"another type", nil, func(p *post) { p.Type = "SubscriptionConfirmation" }, 1},
		{"another version", nil, func(p *post) { p.SignatureVersion = "1" }, 1},
		{"no version", nil, func(p *post) { p.SignatureVersion = "" }, 1},
		{"no signature", nil, func(p *post) { p.Signature = "" }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSNS(t)
			s.serve(t, "https://sns.eu-central-1.amazonaws.com/sqs.pem", "sqs.amazonaws.com", came.Add(-time.Hour), came.Add(time.Hour))
			s.serve(t, "https://sns.eu-central-1.amazonaws.com/old.pem", "sns.amazonaws.com", came.Add(-2*time.Hour), came.Add(-time.Hour))
			s.certs["https://sns.eu-central-1.amazonaws.com/garbage.pem"] = &outbound.Answer{Code: 200, Body: "<html>"}
			p := notification(`{"eventType": "Delivery", "mail": {"messageId": "x"}, "delivery": {}}`)
			if tt.change != nil {
				tt.change(&p)
			}
			h := s.sign(t, p)
			if tt.after != nil {
				var q post
				if err := json.Unmarshal(h.Body, &q); err != nil {
					t.Fatal(err)
				}
				tt.after(&q)
				h = request(t, q)
			}
			got, _, err := s.listener(t).Receipts(h)
			if !errors.Is(err, provider.ErrForged) || got != nil {
				t.Errorf("%v, %v", got, err)
			}
			if len(s.asked) != tt.fetches {
				t.Errorf("fetched %v", s.asked)
			}
		})
	}
}

// TestACertificateIsFetchedOnce, and what cannot be found out is no forgery: SNS posts
// again.
func TestACertificateIsFetchedOnce(t *testing.T) {
	s := newSNS(t)
	l := s.listener(t)
	h := s.sign(t, notification(`{"eventType": "Send"}`))
	s.err = errors.New("no network")
	if _, _, err := l.Receipts(h); err == nil || errors.Is(err, provider.ErrForged) || errors.Is(err, provider.ErrHook) {
		t.Error(err)
	}
	s.err = nil
	if _, _, err := l.Receipts(h); err == nil {
		t.Error("it was asked again within a minute")
	}
	l.sns.now = func() time.Time { return came.Add(2 * time.Minute) }
	for range 3 {
		if _, _, err := l.Receipts(h); err != nil {
			t.Error(err)
		}
	}
	if len(s.asked) != 2 {
		t.Error(s.asked)
	}
}

// TestSubscriptions are confirmed for the topic of the settings, at SNS.
func TestSubscriptions(t *testing.T) {
	good := "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=" + arn + "&Token=abc"
	for _, tt := range []struct {
		name, url string
		code      int
		ok        bool
		called    bool
	}{
		{"as it is asked", good, 200, true, true},
		{"SNS is away", good, 503, false, true},
		{"somewhere else", "https://evil.example/?Action=ConfirmSubscription&TopicArn=" + arn + "&Token=abc", 200, false, false},
		{"another topic", strings.Replace(good, "ses-events", "theirs", 1), 200, false, false},
		{"another action", strings.Replace(good, "ConfirmSubscription", "DeleteTopic", 1), 200, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSNS(t)
			s.certs[tt.url] = &outbound.Answer{Code: tt.code}
			p := notification("You have chosen to subscribe")
			p.Type, p.Token, p.SubscribeURL = "SubscriptionConfirmation", "abc", tt.url
			_, _, err := s.listener(t).Receipts(s.sign(t, p))
			if (err == nil) != tt.ok {
				t.Error(err)
			}
			if called := len(s.asked) == 2 && s.asked[1] == tt.url; called != tt.called {
				t.Error(s.asked)
			}
		})
	}
	s := newSNS(t)
	p := notification("bye")
	p.Type, p.Token, p.SubscribeURL = "UnsubscribeConfirmation", "abc", good
	if _, _, err := s.listener(t).Receipts(s.sign(t, p)); err != nil || len(s.asked) != 1 {
		t.Error(err, s.asked)
	}
}

// TestEvents of SES, as "Examples of event data that Amazon SES publishes to Amazon
// SNS" and "Amazon SNS notification examples" of its developer guide have them, cut to
// what is read.
func TestEvents(t *testing.T) {
	ref := provider.Reference{MessageID: "0193f1a0-0000-7000-8000-000000000001", To: "zoe@example.com", Tenant: "acme", Channel: schemas.ChannelEmail, Class: "verify", Attempt: 1}
	mail := `"mail": {"timestamp": "2026-11-22T03:50:00.000Z", "messageId": "EXAMPLE7c191be45-e9aedb9a-02f9-4d12-a87d-dd0099a07f8a-000000", "destination": ["zoe@example.com"], "tags": {"ses:configuration-set": ["weir"], "weir-reference": ["` + ref.String() + `"]}}`
	plain := `"mail": {"messageId": "EXAMPLE7c191be45", "destination": ["zoe@example.com"]}`
	at := schemas.MillisOf(came.Add(-time.Minute))
	const when = `"timestamp": "2026-11-22T03:59:00.000Z"`
	full := func(change func(*provider.Receipt)) []provider.Receipt {
		r := ref.Receipt("mail")
		r.ProviderMessageID, r.At = "EXAMPLE7c191be45-e9aedb9a-02f9-4d12-a87d-dd0099a07f8a-000000", at
		change(&r)
		return []provider.Receipt{r}
	}
	bounce := func(kind, sub string) string {
		return fmt.Sprintf(`{"eventType": "Bounce", "bounce": {"bounceType": %q, "bounceSubType": %q, "bouncedRecipients": [{"emailAddress": "zoe@example.com", "action": "failed", "status": "5.1.1", "diagnosticCode": "smtp; 550 5.1.1 zoe"}], %s}, %s}`, kind, sub, when, mail)
	}
	undelivered := func(code, text string, suppress schemas.SuppressReason) []provider.Receipt {
		return full(func(r *provider.Receipt) {
			r.Status, r.Code, r.Text, r.Suppress = schemas.StatusUndelivered, code, text, suppress
		})
	}
	for _, tt := range []struct {
		name, text string
		want       []provider.Receipt
		err        error
	}{
		{"delivered", `{"eventType": "Delivery", "delivery": {` + when + `, "smtpResponse": "250 2.6.0 zoe@example.com"}, ` + mail + `}`, full(func(r *provider.Receipt) { r.Status = schemas.StatusDelivered }), nil},
		{"a hard bounce", bounce("Permanent", "General"), undelivered("Bounce/Permanent/General", "the mailbox refused it for good", schemas.SuppressHardBounce), nil},
		{"no such mailbox", bounce("Permanent", "NoEmail"), undelivered("Bounce/Permanent/NoEmail", "the mailbox does not exist", schemas.SuppressHardBounce), nil},
		{"a bounce that may not last", bounce("Transient", "MailboxFull"), undelivered("Bounce/Transient/MailboxFull", "the mailbox is full", ""), nil},
		{"a sub type that is new", bounce("Transient", "Zebra"), undelivered("Bounce/Transient/Zebra", "the mailbox did not take it, and SES gave up", ""), nil},
		{"undetermined", bounce("Undetermined", "Undetermined"), undelivered("Bounce/Undetermined/Undetermined", "it bounced, and SES cannot tell why", ""), nil},
		{"a type that is new", bounce("Zebra", "x"), undelivered("Bounce/Zebra/x", "", ""), nil},
		{"a complaint", `{"eventType": "Complaint", "complaint": {"complaintFeedbackType": "abuse", ` + when + `}, ` + mail + `}`, full(func(r *provider.Receipt) {
			r.Code, r.Text, r.Suppress = "Complaint/abuse", "marked as spam", schemas.SuppressComplaint
		}), nil},
		{"a complaint that says nothing more", `{"eventType": "Complaint", "complaint": {"complaintSubType": null, ` + when + `}, ` + mail + `}`, full(func(r *provider.Receipt) {
			r.Code, r.Text, r.Suppress = "Complaint", "marked as spam", schemas.SuppressComplaint
		}), nil},
		{"not spam after all", `{"eventType": "Complaint", "complaint": {"complaintFeedbackType": "not-spam", ` + when + `}, ` + mail + `}`, nil, nil},
		{"not sent, for an earlier complaint", `{"eventType": "Complaint", "complaint": {"complaintSubType": "OnAccountSuppressionList", ` + when + `}, ` + mail + `}`,
			undelivered("Complaint/OnAccountSuppressionList", "the address is on the account's suppression list at SES, for a complaint", schemas.SuppressComplaint), nil},
		{"a virus", `{"eventType": "Reject", "reject": {"reason": "Bad content"}, ` + mail + `}`, full(func(r *provider.Receipt) {
			r.At = schemas.MillisOf(came)
			r.Status, r.Code, r.Text = schemas.StatusUndelivered, "Reject", "SES found a virus in it"
		}), nil},
		{"it tries again", `{"eventType": "DeliveryDelay", "deliveryDelay": {"delayType": "TransientCommunicationFailure", ` + when + `}, ` + mail + `}`, nil, nil},
		{"it was opened", `{"eventType": "Open", "open": {}, ` + mail + `}`, nil, nil},
		{"without the tag: by SES's id", `{"notificationType": "Bounce", "bounce": {"bounceType": "Permanent", "bounceSubType": "General", ` + when + `}, ` + plain + `}`, []provider.Receipt{{
			Provider: "mail", ProviderMessageID: "EXAMPLE7c191be45", To: "zoe@example.com", Channel: "email", At: at, Status: schemas.StatusUndelivered,
			Code: "Bounce/Permanent/General", Text: "the mailbox refused it for good", Suppress: schemas.SuppressHardBounce,
		}}, nil},
		{"a code that may be anything", bounce("Permanent", strings.Repeat("x", 100)), undelivered("", "the mailbox refused it for good", schemas.SuppressHardBounce), nil},
		{"no event", `Successfully validated SNS topic for Amazon SES event publishing.`, nil, nil},
		{"no message", `{"eventType": "Delivery", "delivery": {}, "mail": {}}`, nil, provider.ErrHook},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSNS(t)
			got, reply, err := s.listener(t).Receipts(s.sign(t, notification(tt.text)))
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) || reply.Status != 0 {
				t.Error(err, reply, diff)
			}
		})
	}
}

func TestTopicARN(t *testing.T) {
	for arn, want := range map[string]string{
		"arn:aws:sns:eu-central-1:123456789012:ses-events":      "sns.eu-central-1.amazonaws.com",
		"arn:aws-cn:sns:cn-north-1:123456789012:ses-events":     "sns.cn-north-1.amazonaws.com.cn",
		"arn:aws-us-gov:sns:us-gov-west-1:123456789012:x":       "sns.us-gov-west-1.amazonaws.com",
		"arn:aws:sqs:eu-central-1:123456789012:ses-events":      "",
		"arn:aws:sns:evil.example/x:123456789012:ses-events":    "",
		"arn:aws:sns:eu-central-1:123456789012:ses-events:more": "",
	} {
		in := provider.SettingsOf(schemas.Provider{Settings: map[string]any{"topic_arn": arn}}, nil)
		topicOf(in)
		if err := in.Err(); (err == nil) != (want != "") {
			t.Errorf("%s: %v", arn, err)
		}
		if want != "" {
			if host := newTopic(arn, slog.New(slog.DiscardHandler)).host; host != want {
				t.Errorf("%s: %s, want %s", arn, host, want)
			}
		}
	}
}

// TestFetching is by outbound's client: addresses that are not public are refused.
func TestFetching(t *testing.T) {
	top := newTopic(arn, slog.New(slog.DiscardHandler))
	if _, err := top.get(t.Context(), "https://127.0.0.1/a.pem"); !errors.Is(err, outbound.ErrRefused) {
		t.Error(err)
	}
	if _, err := top.get(t.Context(), "http://127.0.0.1/a.pem"); err == nil || errors.Is(err, outbound.ErrRefused) {
		t.Error(err)
	}
}
