package schemas

import (
	"fmt"
	"unicode/utf8"
)

// The longest message of each channel, with its variables filled in. What is longer
// is refused whole, at admission and over HTTP: nothing is ever sent cut.
const (
	// MaxSMSSegments is where providers stop to concatenate: 1,530 septets of the GSM
	// 7-bit alphabet, or 670 UTF-16 units of any other text. 3GPP TS 23.040 would allow
	// 255 parts; Twilio refuses over 1,600 characters (error 21617).
	MaxSMSSegments = 10
	// MaxPushBytes is of title, body and data together. APNs and FCM refuse a payload
	// of over 4,096 bytes (Apple, Generating a remote notification; Firebase, About FCM
	// messages); what their own fields take of that, their adapters judge.
	MaxPushBytes = 4096
	// MaxSubjectBytes is of a line without its CRLF (RFC 5322, 2.1.1).
	MaxSubjectBytes = 998
	// MaxVoiceCharacters is Weir's own: some four minutes of speech.
	MaxVoiceCharacters = 4096
	// MaxContentBytes is of text and html together, as filled in: what a request that
	// holds its content may have of it.
	MaxContentBytes = MaxRequestBytes
)

// TooLong returns what of a message is over its channel's limit, as a field of the
// request, and says so for people; "" and "" where nothing is.
func TooLong(channel Channel, subject, body, html, title string, data map[string]string) (pointer, why string) {
	pairs := 0
	for k, v := range data {
		pairs += len(k) + len(v)
	}
	switch channel {
	case ChannelSMS:
		if n := Segments(body); n > MaxSMSSegments {
			return "/body", fmt.Sprintf("takes %d SMS, and a message has at most %d: 1530 characters of the GSM alphabet, or 670 where it has any other", n, MaxSMSSegments)
		}
	case ChannelVoice:
		if n := utf8.RuneCountInString(body); n > MaxVoiceCharacters {
			return "/body", fmt.Sprintf("has %d characters, and a call has at most %d", n, MaxVoiceCharacters)
		}
	case ChannelPush:
		if n := len(title) + len(body) + pairs; n > MaxPushBytes {
			return "/body", fmt.Sprintf("takes %d bytes with title and data, and a push has at most %d", n, MaxPushBytes)
		}
	case ChannelEmail:
		if len(subject) > MaxSubjectBytes {
			return "/subject", fmt.Sprintf("has %d bytes, and a subject has at most %d", len(subject), MaxSubjectBytes)
		}
	case ChannelWebhook:
	}
	if n := len(body) + len(html) + pairs; n > MaxContentBytes {
		return "/body", fmt.Sprintf("has %d bytes with html and data, and a message has at most %d", n, MaxContentBytes)
	}
	return "", ""
}
