package ses

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/letter"
	"github.com/weirhq/weir/schemas"
)

// Listen opens what reads SES's events as Amazon SNS posts them: notifications of the
// topic that settings.topic_arn names, and of no other.
func Listen(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
	in := deps.Settings(p)
	in.Others(settings...)
	arn, links := topicOf(in), letter.ReadLinks(in, deps.PublicURL)
	if err := in.Err(); err != nil {
		return nil, err
	}
	l := &listener{name: p.Name, links: links}
	switch {
	case arn != "":
		l.sns = newTopic(arn, deps.Logger)
	case links == nil:
		return nil, fmt.Errorf("%w (settings.topic_arn names the SNS topic that SES publishes to)", provider.ErrNoListener)
	}
	return l, nil
}

// topicOf is the ARN of the topic that SES publishes to; empty for none.
func topicOf(in *provider.Settings) string {
	arn := in.Text("topic_arn", "")
	if arn != "" && !arnForm.MatchString(arn) {
		in.Fail("topic_arn", "must be the ARN of an SNS topic, such as arn:aws:sns:eu-central-1:123456789012:ses-events")
	}
	return arn
}

type listener struct {
	name  string
	sns   *topic
	links *letter.Links
}

// Inbound reads clicks on "unsubscribe".
func (l *listener) Inbound(h *provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	return l.links.Inbound(h)
}

// Receipts reads one post of SNS's.
func (l *listener) Receipts(h *provider.Hook) ([]provider.Receipt, provider.Reply, error) {
	if l.sns == nil {
		return nil, provider.Reply{}, provider.ErrForged
	}
	text, err := l.sns.read(h)
	if err != nil || text == "" {
		return nil, provider.Reply{}, err
	}
	out, err := receipts(l.name, text, h.At)
	return out, provider.Reply{}, err
}

// event is what SES publishes. Events of a configuration set have eventType,
// notifications of an identity notificationType.
type event struct {
	EventType        string `json:"eventType"`
	NotificationType string `json:"notificationType"`
	Mail             struct {
		MessageID   string              `json:"messageId"`
		Destination []string            `json:"destination"`
		Tags        map[string][]string `json:"tags"`
	} `json:"mail"`
	Bounce *struct {
		Type    string    `json:"bounceType"`
		SubType string    `json:"bounceSubType"`
		At      time.Time `json:"timestamp"`
	} `json:"bounce"`
	Complaint *struct {
		SubType  string    `json:"complaintSubType"`
		Feedback string    `json:"complaintFeedbackType"`
		At       time.Time `json:"timestamp"`
	} `json:"complaint"`
	Delivery *struct {
		At time.Time `json:"timestamp"`
	} `json:"delivery"`
	DeliveryDelay *struct {
		At time.Time `json:"timestamp"`
	} `json:"deliveryDelay"`
}

// receipts reads the text of a notification. Letters of Weir's have one recipient
// each, so an event is one receipt.
func receipts(name, text string, came time.Time) ([]provider.Receipt, error) {
	var e event
	if json.Unmarshal([]byte(text), &e) != nil {
		return nil, nil // such as SES's "Successfully validated SNS topic"
	}
	kind := e.EventType
	if kind == "" {
		kind = e.NotificationType
	}
	code, at := kind, time.Time{}
	switch {
	case kind == "Bounce" && e.Bounce != nil:
		code, at = "Bounce/"+e.Bounce.Type+"/"+e.Bounce.SubType, e.Bounce.At
	case kind == "Complaint" && e.Complaint != nil:
		at = e.Complaint.At
		if e.Complaint.SubType != "" {
			code += "/" + e.Complaint.SubType
		} else if e.Complaint.Feedback != "" {
			code += "/" + e.Complaint.Feedback
		}
	case kind == "Delivery" && e.Delivery != nil:
		at = e.Delivery.At
	case kind == "Reject", kind == "Rendering Failure":
	default:
		return nil, nil // Send, Open, Click, DeliveryDelay and what may come: they change nothing
	}
	if e.Mail.MessageID == "" {
		return nil, fmt.Errorf("%w: the event names no message", provider.ErrHook)
	}
	row, _ := codes.OfReceipt(code)
	r := provider.Receipt{Provider: name, Channel: schemas.ChannelEmail}
	if refs := e.Mail.Tags[tagName]; len(refs) == 1 {
		if ref, err := provider.ParseReference(refs[0]); err == nil {
			r = ref.Receipt(name)
		}
	}
	if r.MessageID == "" && len(e.Mail.Destination) == 1 {
		r.To = e.Mail.Destination[0] // as it was given to SES
	}
	r.ProviderMessageID = e.Mail.MessageID
	r.At = schemas.MillisOf(came)
	if !at.IsZero() && at.Before(came) {
		r.At = schemas.MillisOf(at)
	}
	switch row.Kind {
	case provider.Accepted:
		r.Status = schemas.StatusDelivered
		return []provider.Receipt{r}, nil
	case provider.Permanent:
		r.Status = schemas.StatusUndelivered
	default:
		if kind == "Bounce" { // of a type that the table does not have
			r.Status = schemas.StatusUndelivered
		}
	}
	if r.Status == "" && row.Suppress == "" {
		return nil, nil
	}
	r.Text, r.Suppress = row.Means, row.Suppress
	if len(code) <= 64 && ascii(code) {
		r.Code = code
	}
	return []provider.Receipt{r}, nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
