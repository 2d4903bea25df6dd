package ingest

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

var (
	errUnknownField = errors.New("is unknown")
	errRepeated     = errors.New("stands more than once")
)

// readQuery reads a query: set is called for each of its parameters, in the
// order of their names, and says what is wrong with it, errUnknownField if it is
// none. What stands more than once is wrong. The problem names all of them; p
// says of the whole query that it cannot be read.
func readQuery(r *http.Request, set func(name, value string) error) (wrong []client.FieldError, p *client.Problem) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalidRequest.problem("The query cannot be read.")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		err := set(name, query.Get(name))
		if err == nil && len(query[name]) > 1 {
			err = errRepeated
		}
		if err != nil {
			wrong = append(wrong, wrongParameter(name, err))
		}
	}
	return wrong, nil
}

func wrongParameter(name string, err error) client.FieldError {
	return client.FieldError{Code: "bad_parameter", Detail: "a parameter " + strconv.Quote(known(name)) + " " + err.Error()}
}

// invalidParameters is the problem of what is wrong with a query, or nil.
func invalidParameters(wrong []client.FieldError) *client.Problem {
	if len(wrong) == 0 {
		return nil
	}
	return invalidRequest.problem("errors lists what is wrong.", wrong[:min(len(wrong), 32)]...)
}

// known is a field's name as a problem may show it: no text that came from
// outside and is no name.
func known(name string) string {
	for _, c := range name {
		if (c < 'a' || c > 'z') && c != '_' {
			return ""
		}
	}
	return name[:min(len(name), 32)]
}

func readLimit(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > largestPage {
		return 0, errors.New("is a whole number from 1 to 500")
	}
	return n, nil
}

// readTime reads a bound in time. Nothing is older than 1970, so what lies before is
// all the same; it is no 0, which is no bound.
func readTime(v string) (schemas.Millis, error) {
	t, err := schemas.ParseMillis(v)
	if err != nil || v == "" {
		return 0, errors.New("is no time of RFC 3339")
	}
	return max(t, 1), nil
}

// readStatuses reads one status, or several with commas between them.
func readStatuses(v string) (out []schemas.Status, err error) {
	for name := range strings.SplitSeq(v, ",") {
		s := schemas.Status(name)
		if !slices.Contains(schemas.Statuses, s) {
			return nil, errors.New("is a status, or several with commas between them")
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out, nil
}

var channels = []schemas.Channel{schemas.ChannelSMS, schemas.ChannelVoice, schemas.ChannelEmail, schemas.ChannelPush, schemas.ChannelWebhook}

func readChannel(v string) (schemas.Channel, error) {
	if !slices.Contains(channels, schemas.Channel(v)) {
		return "", errors.New("is sms, voice, email, push or webhook")
	}
	return schemas.Channel(v), nil
}

// longestName bounds the name of a class or a provider in a query.
const longestName = 128

func readName(v string) (string, error) {
	if v == "" || len(v) > longestName || !utf8.ValidString(v) {
		return "", errors.New("is a name")
	}
	return v, nil
}

// mostTo is more than any recipient has.
const mostTo = 2048

// recipients returns the keys of everyone whom a query's text may mean: on the
// channel, or where none is named, on each that can be read so. A number is read
// in the region as a request's is, else as if it began with +, which a query
// that is not escaped turns into a space.
func recipients(channel schemas.Channel, text, region string) ([]string, error) {
	if text == "" || len(text) > mostTo || !utf8.ValidString(text) {
		return nil, errors.New("is a recipient")
	}
	var keys []string
	var why error
	for _, ch := range channels {
		if channel != "" && ch != channel {
			continue
		}
		spellings := []string{text}
		if ch == schemas.ChannelSMS || ch == schemas.ChannelVoice {
			bare := strings.TrimLeft(text, " ")
			if spellings = []string{bare, "+" + bare}; bare != text {
				spellings = []string{"+" + bare, bare}
			}
		}
		for _, s := range spellings {
			to, err := recipient.Canonical(ch, s, region)
			if err == nil {
				if !slices.Contains(keys, to.Key) {
					keys = append(keys, to.Key)
				}
				break
			}
			why = cmpError(why, err)
		}
	}
	if len(keys) == 0 {
		if bad, ok := errors.AsType[*recipient.Error](why); ok && channel != "" {
			return nil, errors.New("is nobody on this channel: " + bad.Detail)
		}
		return nil, errors.New("is nobody on any channel")
	}
	return keys, nil
}

// among reports whether a message to somebody is one to any of these keys. Messages
// from before keys ignored letter case have their address as it was spelled.
func among(keys []string, to string) bool {
	return slices.Contains(keys, to) || slices.Contains(keys, recipient.Fold(to))
}

// cmpError keeps the first.
func cmpError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
