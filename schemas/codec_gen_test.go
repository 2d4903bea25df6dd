package schemas

import (
	"maps"
	"time"

	"pgregory.net/rapid"
)

// Generators for the property tests of this package.

// genText draws text that meets every escape: quotes, controls, line ends of
// JavaScript, astral characters.
func genText() *rapid.Generator[string] {
	return rapid.StringOf(rapid.OneOf(
		rapid.RuneFrom([]rune("abcXYZ019 +-_.:/{}[],\"\\\n\r\t\b\f\x00\x01\x1f\x7f<>&é€中\u2028\u2029\ufffd😀")),
		rapid.Rune(),
	))
}

func genLine() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ019 +-_.:/\"\\<>&é€中😀")), 1, 20, -1)
}

func genTexts(key, value *rapid.Generator[string]) *rapid.Generator[map[string]string] {
	return rapid.Custom(func(t *rapid.T) map[string]string {
		m := rapid.MapOfN(key, value, 0, 4).Draw(t, "texts")
		if len(m) == 0 {
			return nil
		}
		return m
	})
}

// genMillis draws absent times and any that RFC 3339 can write.
func genMillis() *rapid.Generator[Millis] {
	return rapid.OneOf(
		rapid.Just(Millis(0)),
		rapid.Custom(func(t *rapid.T) Millis {
			return Millis(rapid.Int64Range(0, int64(maxWireTime)).Draw(t, "ms"))
		}),
	)
}

// genRequest draws any request that has a form in both encodings, valid or not.
func genRequest() *rapid.Generator[*Request] {
	return rapid.Custom(func(t *rapid.T) *Request {
		text := func(name string) string { return genText().Draw(t, name) }
		return &Request{
			Action:         rapid.SampledFrom(Actions).Draw(t, "action"),
			Tenant:         text("tenant"),
			Channel:        rapid.SampledFrom(append([]Channel{""}, Channels...)).Draw(t, "channel"),
			To:             text("to"),
			Class:          text("class"),
			Template:       text("template"),
			Vars:           genTexts(genText(), genText()).Draw(t, "vars"),
			Subject:        text("subject"),
			Body:           text("body"),
			HTML:           text("html"),
			ReplyTo:        text("reply_to"),
			Title:          text("title"),
			Data:           genTexts(genText(), genText()).Draw(t, "data"),
			From:           text("from"),
			Priority:       rapid.SampledFrom(append([]Priority{""}, Priorities...)).Draw(t, "priority"),
			Provider:       text("provider"),
			IdempotencyKey: text("idempotency_key"),
			ID:             text("id"),
			SendAt:         genMillis().Draw(t, "send_at"),
			ExpiresAt:      genMillis().Draw(t, "expires_at"),
			CallbackURL:    text("callback_url"),
			Metadata:       genTexts(genText(), genText()).Draw(t, "metadata"),
			At:             genMillis().Draw(t, "at"),
			Cost:           genCost().Draw(t, "cost"),
		}
	})
}

// genCost draws a cost as a request has it once it is read: 1 is absent.
func genCost() *rapid.Generator[int] {
	return rapid.SampledFrom([]int{0, 0, 0, 2, 3, MaxCost - 1, MaxCost})
}

var testNow = MillisOf(time.Date(2026, 11, 21, 9, 40, 0, 0, time.UTC))

// genValidSend draws send requests that Validate(testNow) accepts.
func genValidSend() *rapid.Generator[*Request] {
	return rapid.Custom(func(t *rapid.T) *Request {
		name := func(label string) string {
			return rapid.StringMatching(`[a-z0-9-]{0,12}`).Draw(t, label)
		}
		maybe := func(label, v string) string {
			if rapid.Bool().Draw(t, label) {
				return v
			}
			return ""
		}
		q := &Request{
			Tenant:         name("tenant"),
			Channel:        rapid.SampledFrom(Channels).Draw(t, "channel"),
			To:             genLine().Draw(t, "to"),
			Class:          name("class"),
			Template:       name("template"),
			From:           maybe("from?", genLine().Draw(t, "from")),
			Priority:       rapid.SampledFrom(append([]Priority{""}, Priorities...)).Draw(t, "priority"),
			Provider:       name("provider"),
			IdempotencyKey: maybe("key?", genLine().Draw(t, "key")),
			ID:             maybe("id?", "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"),
			SendAt:         testNow.Add(time.Duration(rapid.Int64Range(-1e6, 31*86400e3).Draw(t, "send_at")) * time.Millisecond),
			ExpiresAt:      testNow,
			CallbackURL:    maybe("callback?", "https://example.com/weir"),
			Metadata:       genTexts(genLine(), genLine()).Draw(t, "metadata"),
			Cost:           genCost().Draw(t, "cost"),
		}
		content := func() string { return genLine().Draw(t, "content") }
		if q.Template != "" {
			q.Vars = genTexts(genLine(), genLine()).Draw(t, "vars")
			return q
		}
		switch q.Channel {
		case ChannelSMS, ChannelVoice:
			q.Body = content()
		case ChannelEmail:
			q.Subject, q.HTML, q.ReplyTo = content(), content(), maybe("reply?", content())
		case ChannelPush:
			q.Title, q.Data = content(), genTexts(genLine(), genLine()).Draw(t, "data")
		case ChannelWebhook:
			q.Data = map[string]string{"k": content()}
		}
		return q
	})
}

func genSource() *rapid.Generator[*Source] {
	return rapid.Custom(func(t *rapid.T) *Source {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &Source{genText().Draw(t, "topic"), rapid.Int32().Draw(t, "partition"), rapid.Int64().Draw(t, "offset")}
	})
}

func genCharges() *rapid.Generator[[]Charge] {
	return rapid.Custom(func(t *rapid.T) []Charge {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Charge {
			return Charge{genText().Draw(t, "limit"), genText().Draw(t, "scope"), genMillis().Draw(t, "t"), rapid.Int64().Draw(t, "cost")}
		}), 0, 3).Draw(t, "charges")
	})
}

// genEvent draws any event, meaningful or not.
func genEvent() *rapid.Generator[*Event] {
	return rapid.Custom(func(t *rapid.T) *Event {
		text := func(name string) string { return genText().Draw(t, name) }
		e := &Event{
			Kind:              rapid.SampledFrom(append([]Kind{""}, Kinds...)).Draw(t, "kind"),
			MessageID:         text("message_id"),
			Tenant:            text("tenant"),
			Channel:           text("channel"),
			Class:             text("class"),
			Template:          text("template"),
			To:                text("to"),
			Status:            rapid.SampledFrom(append([]Status{""}, Statuses...)).Draw(t, "status"),
			At:                genMillis().Draw(t, "at"),
			Reason:            text("reason"),
			Attempt:           rapid.Int().Draw(t, "attempt"),
			Provider:          text("provider"),
			ProviderMessageID: text("provider_message_id"),
			ErrorCode:         text("error_code"),
			Error:             text("error"),
			Limit:             text("limit"),
			Window:            text("window"),
			RetryAt:           genMillis().Draw(t, "retry_at"),
			AcceptedAt:        genMillis().Draw(t, "accepted_at"),
			Segments:          rapid.Int().Draw(t, "segments"),
			Cost:              rapid.Int().Draw(t, "cost"),
			Price:             text("price"),
			Currency:          text("currency"),
			DuplicateOf:       text("duplicate_of"),
			RedriveOf:         text("redrive_of"),
			Observed:          rapid.Bool().Draw(t, "observed"),
			Source:            genSource().Draw(t, "source"),
		}
		if rapid.Bool().Draw(t, "decision?") {
			e.Decision = &Decision{
				Verdict:   rapid.SampledFrom(Verdicts).Draw(t, "verdict"),
				Partition: rapid.Int32().Draw(t, "partition"),
				Seq:       rapid.Int64().Draw(t, "seq"),
				T:         genMillis().Draw(t, "t"),
				Revision:  rapid.Int64().Draw(t, "revision"),
				Input:     genSource().Draw(t, "input"),
				Charges:   genCharges().Draw(t, "charges"),
				Returned:  genCharges().Draw(t, "returned"),
				Missing:   genCharges().Draw(t, "missing"),

				Carried:    genCharges().Draw(t, "carried"),
				Passed:     genAsks().Draw(t, "passed"),
				Restored:   genCharges().Draw(t, "restored"),
				Released:   genCharges().Draw(t, "released"),
				Reinstated: genCharges().Draw(t, "reinstated"),
				Onward:     rapid.Ptr(rapid.Int32(), true).Draw(t, "onward"),

				Evidence: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Evidence {
					return Evidence{
						genText().Draw(t, "limit"), genText().Draw(t, "scope"), genText().Draw(t, "window"),
						rapid.Int64().Draw(t, "n"), rapid.Int64().Draw(t, "count"), rapid.Int64().Draw(t, "cost"),
						genMillis().Draw(t, "oldest"), genMillis().Draw(t, "start"), genMillis().Draw(t, "since"),
					}
				}), 0, 3).Draw(t, "evidence"),
			}
			if rapid.Bool().Draw(t, "marker?") {
				e.Decision.Marker = &Marker{
					Revision: rapid.Int64().Draw(t, "revision"),
					Seq:      rapid.Int64().Draw(t, "seq"),
					T:        genMillis().Draw(t, "t"),
					Since: rapid.MapOfN(genText(), rapid.MapOfN(genText(), genMillis(), 0, 3), 0, 3).
						Draw(t, "since"),
				}
			}
		}
		return e
	})
}

// headersOf makes DecodeRequest's second argument of a map.
func headersOf(m map[string]string) func(string) (string, bool) {
	m = maps.Clone(m)
	return func(key string) (string, bool) {
		v, ok := m[key]
		return v, ok
	}
}

func genAsks() *rapid.Generator[[]Ask] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Ask {
		return Ask{genText().Draw(t, "limit"), genText().Draw(t, "scope"), rapid.Int64().Draw(t, "cost"), genMillis().Draw(t, "t")}
	}), 0, 3)
}
