package schemas

import (
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Bounds of a request's fields, in bytes of UTF-8.
const (
	maxNameBytes    = 64   // tenant, class, template, provider
	maxToBytes      = 2048 // a webhook's URL is the longest recipient
	maxLineBytes    = 998  // subject, title, from, reply_to: a line of RFC 5322
	maxKeyBytes     = 255  // idempotency_key
	maxURLBytes     = 2048
	maxSendAhead    = 31 * 24 * time.Hour
	maxRecordAhead  = time.Minute          // clocks of those who report a message sent elsewhere
	oldestRequestAt = Millis(946684800000) // 2000-01-01T00:00:00Z
)

// Validate checks every rule of a request that needs no policy, at now. It
// returns a *RequestError with everything that is wrong, or nil.
//
// Names (tenant, class, template, provider) may have letters, digits and
// ". _ : / -", so that names of older systems pass, though a policy declares
// only [a-z0-9-]. An action other than send reads only the fields it needs and
// ignores the others. A send_at in the past sends now, an expires_at in the past
// expires: neither is an error.
func (q *Request) Validate(now Millis) error { return q.validate(now, false) }

// ValidateHTTP is Validate for the body of POST /v1/messages, where ids are
// Weir's and what comes is a message to send.
func (q *Request) ValidateHTTP(now Millis) error { return q.validate(now, true) }

func (q *Request) validate(now Millis, http bool) error {
	var ps requestProblems
	q.problems(&ps, now, http)
	if len(ps) == 0 {
		return nil
	}
	return &RequestError{Problems: ps, Partial: q}
}

func (q *Request) problems(ps *requestProblems, now Millis, http bool) {
	if http {
		if q.ID != "" {
			ps.add("/id", ReasonNotPermitted, "is for Kafka only: over HTTP Weir makes the id")
		}
		if q.Action != ActionSend {
			ps.add("/action", ReasonNotPermitted, "is for Kafka only: HTTP takes messages to send")
			return
		}
	}
	if !slices.Contains(Actions, q.Action) {
		ps.add("/action", ReasonUnknownValue, "must be absent, cancel, suppress, unsuppress, record or release")
		return
	}
	if q.Channel != "" && !slices.Contains(Channels, q.Channel) {
		ps.add("/channel", ReasonUnknownValue, "must be sms, voice, email, push or webhook")
	}
	if q.To == "" {
		ps.add("/to", ReasonRequired, "is required")
	}
	checkLine(ps, "/to", q.To, maxToBytes)
	checkName(ps, "/tenant", q.Tenant)
	checkName(ps, "/class", q.Class)
	if q.ID != "" && !validID(q.ID) {
		ps.add("/id", ReasonBadID, "must be a UUID, such as 0192f0c1-2a3b-7c4d-8e5f-60718293a4b5, and not the nil UUID")
	}

	switch q.Action {
	case ActionCancel:
		if q.ID == "" {
			ps.add("/id", ReasonRequired, "is required: it names the message to cancel")
		}
	case ActionRelease:
		if q.ID == "" {
			ps.add("/id", ReasonRequired, "is required: it names the decision whose places are given back")
		}
	case ActionSuppress:
		// One that is over would be no suppression, and who asks for it believes
		// that it is one.
		if q.ExpiresAt != 0 && q.ExpiresAt <= now {
			ps.add("/expires_at", ReasonExpiresOutOfRange, "is in the past: a suppression ends after now, or without expires_at never")
		}
		q.termsProblems(ps)
	case ActionUnsuppress:
		q.termsProblems(ps)
	case ActionRecord:
		if q.Channel == "" {
			ps.add("/channel", ReasonRequired, "is required")
		}
		switch {
		case q.At == 0:
			ps.add("/at", ReasonRequired, "is required: when the message was sent elsewhere")
		case q.At < oldestRequestAt || q.At > now.Add(maxRecordAhead):
			ps.add("/at", ReasonAtOutOfRange, "must be after 2000 and not in the future")
		}
		q.sharedProblems(ps)
	case ActionSend:
		q.sendProblems(ps, now)
	}
}

// termsProblems checks what a suppression is kept with.
func (q *Request) termsProblems(ps *requestProblems) {
	if why := q.Metadata[MetaReason]; utf8.RuneCountInString(why) > MaxSuppressReason {
		ps.add("/metadata/reason", ReasonTooLong, "is longer than 64 characters")
	} else {
		checkLine(ps, "/metadata/reason", why, MaxMetadataBytes)
	}
	checkName(ps, "/metadata/provider", q.Metadata[MetaProvider])
}

// sharedProblems checks what send and record have in common beyond what every
// action has.
func (q *Request) sharedProblems(ps *requestProblems) {
	checkName(ps, "/template", q.Template)
	checkName(ps, "/provider", q.Provider)
	checkLine(ps, "/idempotency_key", q.IdempotencyKey, maxKeyBytes)
	checkMetadata(ps, q.Metadata)
	if q.Cost < 0 || q.Cost > MaxCost {
		ps.add("/cost", ReasonCostOutOfRange, costForm)
	}
}

// costForm says what a cost may be.
const costForm = "must be a whole number from 1 to 1000000"

func (q *Request) sendProblems(ps *requestProblems, now Millis) {
	if q.Channel == "" {
		ps.add("/channel", ReasonRequired, "is required: sms, voice, email, push or webhook")
	}
	q.sharedProblems(ps)
	if q.Priority != "" && !slices.Contains(Priorities, q.Priority) {
		ps.add("/priority", ReasonUnknownValue, "must be urgent, normal or bulk")
	}
	checkLine(ps, "/from", q.From, maxLineBytes)
	checkLine(ps, "/subject", q.Subject, maxLineBytes)
	checkLine(ps, "/title", q.Title, maxLineBytes)
	checkLine(ps, "/reply_to", q.ReplyTo, maxLineBytes)
	checkProse(ps, "/body", q.Body)
	checkProse(ps, "/html", q.HTML)
	checkTexts(ps, "/vars", q.Vars)
	checkTexts(ps, "/data", q.Data)
	if slices.Contains(Channels, q.Channel) {
		q.contentProblems(ps)
	}
	if q.SendAt != 0 && (q.SendAt < oldestRequestAt || q.SendAt > now.Add(maxSendAhead)) {
		ps.add("/send_at", ReasonSendAtOutOfRange, "must be after 2000 and at most 31 days from now")
	}
	if q.ExpiresAt != 0 && q.ExpiresAt < oldestRequestAt {
		ps.add("/expires_at", ReasonExpiresOutOfRange, "is before 2000")
	}
	if q.At != 0 {
		ps.add("/at", ReasonNotPermitted, "belongs to the action record; a message is scheduled with send_at")
	}
	checkLine(ps, "/callback_url", q.CallbackURL, maxURLBytes)
	if q.CallbackURL != "" && !validURL(q.CallbackURL) {
		ps.add("/callback_url", ReasonBadURL, "must be an http or https URL")
	}
}

// contentProblems holds a send request to what its channel has. A template
// stands for subject, body, html and title; reply_to and data are no part of a
// template and go with either.
func (q *Request) contentProblems(ps *requestProblems) {
	type field struct {
		pointer string
		set     bool
		content bool // a template would fill it
	}
	fields := [...]field{
		{"/subject", q.Subject != "", true},
		{"/body", q.Body != "", true},
		{"/html", q.HTML != "", true},
		{"/title", q.Title != "", true},
		{"/reply_to", q.ReplyTo != "", false},
		{"/data", len(q.Data) > 0, false},
	}
	for _, f := range fields {
		switch {
		case !f.set:
		case !channelHas(q.Channel, f.pointer):
			ps.add(f.pointer, ReasonNotPermitted, "is not part of a message of channel "+string(q.Channel))
		case f.content && q.Template != "":
			ps.add(f.pointer, ReasonTemplateAndContent, "stands beside a template: a message has one or the other")
		}
	}
	if q.Template != "" {
		return
	}
	if len(q.Vars) > 0 {
		ps.add("/vars", ReasonNotPermitted, "needs a template: content is sent as it stands")
	}
	switch q.Channel {
	case ChannelSMS, ChannelVoice:
		if q.Body == "" {
			ps.add("/body", ReasonContentRequired, "is required where there is no template")
		}
	case ChannelEmail:
		if q.Subject == "" {
			ps.add("/subject", ReasonContentRequired, "is required where there is no template")
		}
		if q.Body == "" && q.HTML == "" {
			ps.add("/body", ReasonContentRequired, "or html is required where there is no template")
		}
	case ChannelPush:
		if q.Title == "" && q.Body == "" {
			ps.add("/body", ReasonContentRequired, "or title is required where there is no template")
		}
	case ChannelWebhook:
		if q.Body == "" && len(q.Data) == 0 {
			ps.add("/body", ReasonContentRequired, "or data is required where there is no template")
		}
	}
}

// channelHas reports whether messages of a channel have a field of content.
func channelHas(c Channel, pointer string) bool {
	switch c {
	case ChannelSMS, ChannelVoice:
		return pointer == "/body"
	case ChannelEmail:
		return pointer == "/subject" || pointer == "/body" || pointer == "/html" || pointer == "/reply_to"
	case ChannelPush:
		return pointer == "/title" || pointer == "/body" || pointer == "/data"
	case ChannelWebhook:
		return pointer == "/body" || pointer == "/data"
	}
	return false
}

// validID accepts the one spelling of RFC 9562 and not the nil UUID, which is
// what a producer sends that forgot to make an id: all its messages would be
// duplicates of each other.
func validID(id string) bool {
	if len(id) != 36 {
		return false
	}
	u, err := uuid.Parse(id)
	return err == nil && u != uuid.Nil
}

func validURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func checkName(ps *requestProblems, pointer, name string) {
	if len(name) > maxNameBytes {
		ps.add(pointer, ReasonTooLong, "is longer than 64 characters")
		return
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/':
		default:
			ps.add(pointer, ReasonBadName, "may have letters, digits and - _ . : / only")
			return
		}
	}
}

// checkLine holds a field to one line of at most so many bytes: these become
// headers of mail and HTTP, or keys.
func checkLine(ps *requestProblems, pointer, s string, most int) {
	switch {
	case len(s) > most:
		ps.add(pointer, ReasonTooLong, "is longer than "+strconv.Itoa(most)+" bytes")
	case !lineOK(s):
		ps.add(pointer, ReasonControlCharacter, "has a control character")
	}
}

func checkProse(ps *requestProblems, pointer, s string) {
	if !proseOK(s) {
		ps.add(pointer, ReasonControlCharacter, "has a control character")
	}
}

// checkTexts checks vars and data, in the order of their names.
func checkTexts(ps *requestProblems, pointer string, m map[string]string) {
	for k, v := range m {
		if k == "" || !lineOK(k) || !proseOK(v) {
			// Something is wrong: only now is the order worth its price.
			for _, k := range sortedKeys(m) {
				checkPairName(ps, pointer, k)
				checkProse(ps, appendPointer(pointer, k), m[k])
			}
			return
		}
	}
}

func checkMetadata(ps *requestProblems, m map[string]string) {
	if len(m) > MaxMetadataPairs {
		ps.add("/metadata", ReasonTooMany, "has more than 16 pairs")
		return
	}
	size, sound := 0, true
	for k, v := range m {
		size += len(k) + len(v)
		sound = sound && k != "" && lineOK(k) && lineOK(v)
	}
	if size > MaxMetadataBytes {
		ps.add("/metadata", ReasonTooLong, "is larger than 4 KiB")
		return
	}
	if sound {
		return
	}
	for _, k := range sortedKeys(m) {
		checkPairName(ps, "/metadata", k)
		checkLine(ps, appendPointer("/metadata", k), m[k], MaxMetadataBytes)
	}
}

func checkPairName(ps *requestProblems, pointer, name string) {
	switch {
	case name == "":
		ps.add(pointer, ReasonBadName, "has an empty name")
	case !lineOK(name):
		ps.add(pointer, ReasonControlCharacter, "has a name with a control character")
	}
}

// lineOK reports whether s has neither control characters nor line ends.
func lineOK(s string) bool {
	for _, c := range s {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return false
		}
	}
	return true
}

// proseOK reports whether s has no control characters but tab, line feed, form
// feed (a page break in GSM 03.38) and carriage return.
func proseOK(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r') || c == 0x7f {
			return false
		}
	}
	return true
}
