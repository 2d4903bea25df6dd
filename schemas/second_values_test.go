package schemas

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSecondTime compares the reading of a request's times with a reader of RFC 3339 that
// counts days by itself: what is a time, and its millisecond.
func TestSecondTime(t *testing.T) {
	times := 50_000
	if os.Getenv("WEIR_CHAOS") != "" {
		times = 5_000_000
	}
	rnd := rand.New(rand.NewPCG(9, 10))
	valid := 0
	for range times {
		s := timeText(rnd)
		q, err := DecodeRequestStrict([]byte(`{"send_at":"` + s + `"}`))
		want, ok := secondTime(s)
		if (err == nil) != ok || ok && int64(q.SendAt) != want {
			t.Fatalf("%q: %+v, %v; the second reader says %d, %v", s, q, err, want, ok)
		}
		if ok {
			valid++
		}
	}
	if valid < times/4 || valid > times*9/10 {
		t.Errorf("%d of %d are valid", valid, times)
	}
	t.Logf("%d times, %d of them valid", times, valid)
}

// timeText draws a time of the years 1969 to 10000, which may have fields beyond their range
// or a wrong character.
func timeText(rnd *rand.Rand) string {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	two := func(most int) string { return fmt.Sprintf("%02d", rnd.IntN(most+1)) }
	year := pick("1969", "1970", "1999", "2000", "2024", "2100", "9999", strconv.Itoa(1970+rnd.IntN(8030)), strconv.Itoa(1970+rnd.IntN(8030)))
	day := func() string { return fmt.Sprintf("%02d", 1+rnd.IntN(28)) }()
	if rnd.IntN(4) == 0 {
		day = pick("00", "28", "29", "30", "31", "32")
	}
	month := fmt.Sprintf("%02d", 1+rnd.IntN(12))
	if rnd.IntN(20) == 0 {
		month = pick("00", "13", "2")
	}
	clock := two(23) + ":" + two(59) + ":" + two(59)
	if rnd.IntN(10) == 0 {
		clock = two(30) + ":" + two(70) + ":" + two(70)
	}
	fraction := pick("", "", ".5", ".123", ".999999999", ".0000000001", ".12345678901234567890", ".")
	zone := pick("Z", "Z", "+08:00", "-11:30", "+23:59", "-23:59", "+00:00", "-00:00", "+14:00", "+24:00", "+08:60", "+0800", "z", "")
	s := year + "-" + month + "-" + day + "T" + clock + fraction + zone
	if rnd.IntN(20) == 0 {
		i := rnd.IntN(len(s))
		s = s[:i] + pick("", " ", "t", ",", "0", "-", "\u0661") + s[i+rnd.IntN(2):]
	}
	return s
}

var timeForm = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))$`)

// secondTime reads a time as milliseconds since 1970, which are more than 0 and before the
// year 10000 in UTC. There are no leap seconds.
func secondTime(s string) (ms int64, ok bool) {
	if s == "" {
		return 0, true
	}
	m := timeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(m[i], 10, 64); return v }
	year, month, day := n(1), n(2), n(3)
	leap := func(y int64) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }
	months := []int64{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	if leap(year) {
		months[1] = 29
	}
	if month < 1 || month > 12 || day < 1 || day > months[month-1] || n(4) > 23 || n(5) > 59 || n(6) > 59 || n(9) > 23 || n(10) > 59 {
		return 0, false
	}
	days := day - 1
	for _, d := range months[:month-1] {
		days += d
	}
	for y := int64(1970); y < year; y++ {
		days += 365
		if leap(y) {
			days++
		}
	}
	if year < 1970 {
		days -= 365 * (1970 - year) // of 1969 alone
	}
	seconds := ((days*24+n(4))*60+n(5))*60 + n(6)
	east := (n(9)*60 + n(10)) * 60
	if m[8] == "+" {
		east = -east
	}
	thousandths, _ := strconv.ParseInt((m[7] + "000")[:3], 10, 64)
	ms = (seconds+east)*1000 + thousandths
	return ms, ms > 0 && ms < 253402300800000
}

// TestSecondValues compares what Validate says of a request's values, field by field, with
// another set of the same rules.
func TestSecondValues(t *testing.T) {
	requests := 50_000
	if os.Getenv("WEIR_CHAOS") != "" {
		requests = 5_000_000
	}
	rnd := rand.New(rand.NewPCG(11, 12))
	now := MillisOf(time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC))
	valid, codes := 0, map[string]int{}
	for range requests {
		q := drawValues(rnd, now)
		http := rnd.IntN(4) == 0
		validate := q.Validate
		if http {
			validate = q.ValidateHTTP
		}
		got := map[string]string{}
		if err := validate(now); err != nil {
			for _, p := range err.(*RequestError).Problems {
				got[p.Pointer] = p.Code
				codes[p.Code]++
			}
		} else {
			valid++
		}
		if want := secondProblems(q, now, http); !maps.Equal(got, want) {
			t.Fatalf("%+v, over HTTP %v: %s", q, http, cmp.Diff(want, got))
		}
	}
	if valid < requests/10 || valid > requests*9/10 || len(codes) < 14 {
		t.Errorf("%d of %d are valid; codes %v", valid, requests, codes)
	}
	t.Logf("%d requests, %d of them valid; %v", requests, valid, codes)
}

// secondURLs are callback URLs, and whether each is one.
var secondURLs = map[string]bool{"https://example.com/hook": true, "HTTP://a": true, "http://[::1]:80/x?y#z": true, "http://:80": true, "https://user@/x": false, "ftp://a/": false, "example.com": false, "https:": false, "https://": false, "http://a b/": false,
	"http://%zz/": false, "//a/b": false}

// drawValues draws a request of which one or two fields may have a value that they may not have.
func drawValues(rnd *rand.Rand, now Millis) *Request {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	rare := func(n int) bool { return rnd.IntN(n) == 0 }
	strange := func() string {
		n := []int{63, 64, 65, 255, 256, 998, 999, 2048, 2049, 4096, 4097}[rnd.IntN(11)]
		return pick(strings.Repeat("x", n), strings.Repeat("\u00e9", n/2), "a b", "a\tb", "a\nb", "a\x00", "\x7f", "\u0085", "\u2028", "\u2029", "\f", "\r\n", "\x1b", "\u4e2d", "a/b", "A.b_c:d-e", "a~b", "")
	}
	name := func() string {
		if rare(20) {
			return strange()
		}
		return pick("", "", "acme", "a/B.c_d:e-9")
	}
	line := func() string {
		if rare(20) {
			return strange()
		}
		return pick("", "", "text", "\u4e2d\u6587")
	}
	at := func() Millis {
		return []Millis{0, 0, 0, 0, 1, oldestRequestAt - 1, oldestRequestAt, now - 1, now, now + 1, now + 60_000, now + 60_001, now + 31*86_400_000, now + 31*86_400_000 + 1, maxWireTime}[rnd.IntN(15)]
	}
	pairs := func(most int) map[string]string {
		if rare(2) {
			return nil
		}
		m := map[string]string{}
		for range rnd.IntN(most + 1) {
			k := pick("a", "b/c", "d~e", "reason", "provider")
			if rare(20) {
				k = pick("", "\n", "\x00", "x")
			}
			m[k] = line()
		}
		if rare(100) {
			for i := range 12 + rnd.IntN(8) {
				m[strconv.Itoa(i)] = "v"
			}
		}
		return m
	}
	q := &Request{Action: Action(pick("", "", "", "", "cancel", "suppress", "unsuppress", "record", "release")), Channel: Channels[rnd.IntN(len(Channels))], To: "+8613800000000",
		Tenant: name(), Class: name(), Provider: name(), Priority: Priority(pick("", "", "urgent", "normal", "bulk")), From: line(), IdempotencyKey: line(), Metadata: pairs(3)}
	if rare(2) {
		q.ID = pick("0192f0c1-2a3b-7c4d-8e5f-60718293a4b5", "0192F0C1-2A3B-7C4D-8E5F-60718293A4B5")
	}
	if rare(3) {
		q.Template = pick("login", "login", name())
		q.Vars = pairs(3)
	} else {
		q.Body = pick("text", "text", "")
		if q.Channel == ChannelEmail {
			q.Subject = pick("s", "s", "")
		}
	}
	for range rnd.IntN(3) {
		switch rnd.IntN(17) {
		case 16:
			q.Cost = []int{-1, 0, 1, 2, 999_999, 1_000_000, 1_000_001, 1 << 31}[rnd.IntN(8)]
		case 0:
			q.Action = Action(pick("send", "CANCEL", "cancel", "record"))
		case 1:
			q.Channel = Channel(pick("", "SMS", "fax", "push", "webhook"))
		case 2:
			q.To = pick("", strange())
		case 3:
			q.ID = pick("x", "00000000-0000-0000-0000-000000000000", "0192f0c12a3b7c4d8e5f60718293a4b5", "{0192f0c1-2a3b-7c4d-8e5f-60718293a4b5}", "0192f0c1-2a3b-7c4d-8e5f-60718293a4bg", "0192f0c1+2a3b-7c4d-8e5f-60718293a4b5")
		case 4:
			q.Priority = Priority(pick("high", "Urgent"))
		case 5:
			q.Subject = line()
		case 6:
			q.HTML = pick(line(), strange())
		case 7:
			q.Title = line()
		case 8:
			q.ReplyTo = line()
		case 9:
			q.Data = pairs(3)
		case 10:
			q.SendAt = at()
		case 11:
			q.ExpiresAt = at()
		case 12:
			q.At = at()
		case 13:
			q.CallbackURL = append(slices.Sorted(maps.Keys(secondURLs)), "\x00", strings.Repeat("x", 2049))[rnd.IntN(len(secondURLs)+2)]
		case 14:
			q.Body = strange()
		case 15:
			q.Vars = pairs(2)
		}
	}
	return q
}

var (
	secondName    = regexp.MustCompile(`^[-_.:/A-Za-z0-9]*$`)
	secondID      = regexp.MustCompile(`(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	secondControl = regexp.MustCompile(`[\x{0}-\x{1f}\x{7f}-\x{9f}\x{2028}\x{2029}]`)
	secondStray   = regexp.MustCompile(`[\x00-\x08\x0b\x0e-\x1f\x7f]`)
)

// secondProblems says what is wrong with a request, the first of each field.
func secondProblems(q *Request, now Millis, http bool) map[string]string {
	wrong := map[string]string{}
	say := func(field, code string, is bool) {
		if is && wrong[field] == "" {
			wrong[field] = code
		}
	}
	line := func(field, s string, most int) {
		say(field, "too_long", len(s) > most)
		say(field, "control_character", secondControl.MatchString(s))
	}
	name := func(field, s string) {
		say(field, "too_long", len(s) > 64)
		say(field, "bad_name", !secondName.MatchString(s))
	}
	pairs := func(field string, m map[string]string, value func(field, s string)) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			say(field, "bad_name", k == "")
			say(field, "control_character", secondControl.MatchString(k))
			value(field+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), m[k])
		}
	}
	send, terms := q.Action == "", q.Action == "suppress" || q.Action == "unsuppress"
	const year2000 = 946_684_800_000
	if http {
		say("/id", "not_permitted", q.ID != "")
		if say("/action", "not_permitted", !send); !send {
			return wrong
		}
	}
	if !slices.Contains([]Action{"", "cancel", "suppress", "unsuppress", "record", "release"}, q.Action) {
		say("/action", "unknown_value", true)
		return wrong
	}
	known := slices.Contains([]Channel{"sms", "voice", "email", "push", "webhook"}, q.Channel)
	say("/channel", "required", q.Channel == "" && (send || q.Action == "record"))
	say("/channel", "unknown_value", q.Channel != "" && !known)
	say("/to", "required", q.To == "")
	line("/to", q.To, 2048)
	name("/tenant", q.Tenant)
	name("/class", q.Class)
	say("/id", "required", q.ID == "" && (q.Action == "cancel" || q.Action == "release"))
	say("/id", "bad_id", q.ID != "" && (!secondID.MatchString(q.ID) || strings.Trim(q.ID, "0-") == ""))
	if terms {
		say("/expires_at", "expires_at_out_of_range", q.Action == "suppress" && q.ExpiresAt != 0 && q.ExpiresAt <= now)
		say("/metadata/reason", "too_long", len([]rune(q.Metadata["reason"])) > 64)
		line("/metadata/reason", q.Metadata["reason"], 4096)
		name("/metadata/provider", q.Metadata["provider"])
	}
	if !send && q.Action != "record" {
		return wrong
	}
	say("/at", "required", !send && q.At == 0)
	say("/at", "at_out_of_range", !send && (q.At < year2000 || q.At > now+60_000))
	name("/template", q.Template)
	name("/provider", q.Provider)
	line("/idempotency_key", q.IdempotencyKey, 255)
	size := 0
	for k, v := range q.Metadata {
		size += len(k + v)
	}
	say("/metadata", "too_many", len(q.Metadata) > 16)
	say("/metadata", "too_long", size > 4096)
	if wrong["/metadata"] == "" {
		pairs("/metadata", q.Metadata, func(field, s string) { line(field, s, 4096) })
	}
	say("/cost", "cost_out_of_range", q.Cost != 0 && (q.Cost < 1 || q.Cost > 1_000_000))
	if !send {
		return wrong
	}
	prose := func(field, s string) { say(field, "control_character", secondStray.MatchString(s)) }
	say("/priority", "unknown_value", q.Priority != "" && q.Priority != "urgent" && q.Priority != "normal" && q.Priority != "bulk")
	for field, s := range map[string]string{"/from": q.From, "/subject": q.Subject, "/title": q.Title, "/reply_to": q.ReplyTo} {
		line(field, s, 998)
	}
	prose("/body", q.Body)
	prose("/html", q.HTML)
	pairs("/vars", q.Vars, prose)
	pairs("/data", q.Data, prose)
	has := map[Channel]string{"sms": "/body", "voice": "/body", "email": "/subject /body /html /reply_to", "push": "/title /body /data", "webhook": "/body /data"}[q.Channel]
	for field, set := range map[string]bool{"/subject": q.Subject != "", "/body": q.Body != "", "/html": q.HTML != "", "/title": q.Title != "", "/reply_to": q.ReplyTo != "", "/data": len(q.Data) > 0} {
		say(field, "not_permitted", known && set && !slices.Contains(strings.Fields(has), field))
		say(field, "template_and_content", known && set && q.Template != "" && field != "/reply_to" && field != "/data")
	}
	if known && q.Template == "" {
		say("/vars", "not_permitted", len(q.Vars) > 0)
		say("/subject", "content_required", q.Channel == "email" && q.Subject == "")
		instead := map[Channel]bool{"email": q.HTML != "", "push": q.Title != "", "webhook": len(q.Data) > 0}[q.Channel]
		say("/body", "content_required", q.Body == "" && !instead)
	}
	say("/send_at", "send_at_out_of_range", q.SendAt != 0 && (q.SendAt < year2000 || q.SendAt > now+31*86_400_000))
	say("/expires_at", "expires_at_out_of_range", q.ExpiresAt != 0 && q.ExpiresAt < year2000)
	say("/at", "not_permitted", q.At != 0)
	line("/callback_url", q.CallbackURL, 2048)
	say("/callback_url", "bad_url", q.CallbackURL != "" && !secondURLs[q.CallbackURL])
	return wrong
}
