package schemas

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTooLong: at the edge a message goes, and one more is refused.
func TestTooLong(t *testing.T) {
	x := strings.Repeat
	for _, tt := range []struct {
		name                       string
		channel                    Channel
		subject, body, html, title string
		data                       map[string]string
		want                       string
	}{
		{name: "ten of GSM", channel: ChannelSMS, body: x("a", 1530)},
		{name: "eleven of GSM", channel: ChannelSMS, body: x("a", 1531), want: "/body"},
		{name: "ten of GSM with escapes", channel: ChannelSMS, body: x("€", 760)}, // 76 a part: an escape is not parted
		{name: "eleven of GSM with escapes", channel: ChannelSMS, body: x("€", 761), want: "/body"},
		{name: "ten of UCS-2", channel: ChannelSMS, body: x("码", 670)},
		{name: "eleven of UCS-2", channel: ChannelSMS, body: x("码", 671), want: "/body"},
		{name: "ten of emoji", channel: ChannelSMS, body: x("😀", 330)}, // 33 a part: a pair is not parted
		{name: "eleven of emoji", channel: ChannelSMS, body: x("😀", 331), want: "/body"},
		{name: "a character makes it UCS-2", channel: ChannelSMS, body: x("a", 670) + "码", want: "/body"},
		{name: "a call", channel: ChannelVoice, body: x("é", 4096)},
		{name: "a long call", channel: ChannelVoice, body: x("é", 4097), want: "/body"},
		{name: "a push", channel: ChannelPush, title: x("t", 96), body: x("b", 3000), data: map[string]string{"k": x("v", 999)}},
		{name: "a long push", channel: ChannelPush, title: x("t", 96), body: x("b", 3000), data: map[string]string{"k": x("v", 1000)}, want: "/body"},
		{name: "a push of a long title", channel: ChannelPush, title: x("é", 2048)},
		{name: "a push of a longer title", channel: ChannelPush, title: x("é", 2048) + "t", want: "/body"},
		{name: "a mail", channel: ChannelEmail, subject: x("s", 998), body: x("b", 200<<10), html: x("h", 56<<10)},
		{name: "a long subject", channel: ChannelEmail, subject: x("s", 999), body: "b", want: "/subject"},
		{name: "a long mail", channel: ChannelEmail, subject: "s", body: x("b", 200<<10), html: x("h", 56<<10+1), want: "/body"},
		{name: "a webhook", channel: ChannelWebhook, body: x("b", 256<<10)},
		{name: "a long webhook", channel: ChannelWebhook, body: x("b", 256<<10), data: map[string]string{"k": ""}, want: "/body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, why := TooLong(tt.channel, tt.subject, tt.body, tt.html, tt.title, tt.data); got != tt.want || (why == "") != (got == "") {
				t.Errorf("%q %q, want %q", got, why, tt.want)
			}
		})
	}
}

// TestTooLongIsMonotone: of a text that goes every beginning goes, and an SMS goes
// exactly if it is ten parts or fewer.
func TestTooLongIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		channel := rapid.SampledFrom(Channels).Draw(t, "channel")
		piece := rapid.SampledFrom([]string{"a", "€", "码", "😀", "é", "\n"})
		var b strings.Builder
		for range rapid.IntRange(1, 8).Draw(t, "pieces") {
			b.WriteString(strings.Repeat(piece.Draw(t, "piece"), rapid.IntRange(0, 900).Draw(t, "times")))
		}
		body := b.String()
		over := func(text string) bool {
			at, _ := TooLong(channel, "", text, "", "", nil)
			return at != ""
		}
		if channel == ChannelSMS && over(body) != (Segments(body) > 10) {
			t.Fatalf("%d parts: %v", Segments(body), over(body))
		}
		if over(body) {
			return
		}
		for i := range body {
			if i%97 == 0 && over(body[:i]) {
				t.Fatalf("the first %d bytes do not go", i)
			}
		}
	})
}
