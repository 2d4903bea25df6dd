package letter

import (
	"errors"
	netmail "net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/weirhq/weir/processor/provider"
)

// Settings are those that Read asks for.
var Settings = []string{"from", "from_name", "return_path", "list_unsubscribe", "unsubscribe_secret"}

// Style is what a provider's letters have in common.
type Style struct {
	From       netmail.Address // who writes, unless the call says otherwise
	ReturnPath string          // where bounces go; empty is the address that the letter is from
	// Unsubscribe are addresses for List-Unsubscribe (RFC 2369): https and mailto,
	// with {{id}} and {{to}} in them. With an https one, the header of RFC 8058 says
	// that one POST is enough.
	Unsubscribe []string
	// Links makes addresses at Weir itself, before those of Unsubscribe; nil for
	// none.
	Links *Links
}

// Read reads the settings of a provider; what is wrong with them, in says. publicURL is
// provider.Deps.PublicURL.
//
//	from                an address; required
//	from_name           the name beside it
//	return_path         where bounces go
//	list_unsubscribe    an https address, a mailto address, or a list of them
//	unsubscribe_secret  lets Weir itself take one-click unsubscriptions: Links
func Read(in *provider.Settings, publicURL string) *Style {
	s := new(Style)
	if from := in.Required("from", "an address, such as noreply@example.com"); from != "" {
		if a, err := netmail.ParseAddress(from); err != nil {
			in.Fail("from", "is no address")
		} else {
			s.From = *a
		}
	}
	if name := in.Text("from_name", ""); name != "" {
		s.From.Name = name
	}
	if path := in.Text("return_path", ""); path != "" {
		if a, err := netmail.ParseAddress(path); err != nil {
			in.Fail("return_path", "is no address")
		} else {
			s.ReturnPath = a.Address
		}
	}
	s.Unsubscribe = readUnsubscribe(in)
	s.Links = ReadLinks(in, publicURL)
	return s
}

func readUnsubscribe(in *provider.Settings) (out []string) {
	var all []any
	switch v := in.Any("list_unsubscribe").(type) {
	case nil:
	case string:
		all = []any{v}
	case []any:
		all = v
	default:
		in.Fail("list_unsubscribe", "must be an address or a list of addresses")
	}
	for _, v := range all {
		text, _ := v.(string)
		u, err := url.Parse(fill(text, "x", "x"))
		if err != nil || u.Scheme != "https" && u.Scheme != "mailto" || u.Scheme == "https" && u.Host == "" || u.Scheme == "mailto" && !strings.Contains(u.Opaque, "@") || strings.ContainsAny(text, "<>, \"\\") || !printable(text) || len(text) > 400 {
			in.Fail("list_unsubscribe", "must hold https:// and mailto: addresses of at most 400 characters, such as https://example.com/u?m={{id}}")
		}
		out = append(out, text)
	}
	return out
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func fill(template, id, to string) string {
	return strings.NewReplacer("{{id}}", url.QueryEscape(id), "{{to}}", url.QueryEscape(to)).Replace(template)
}

// longLink is what stands in a line of 998 bytes.
const longLink = 900

// unsubscribe is the value of List-Unsubscribe, and whether one POST is enough. A
// letter without a tenant is Weir's own (an alert): nobody unsubscribes from it.
func (s *Style) unsubscribe(c *provider.Call) (list string, oneClick bool) {
	if c.Tenant == "" {
		return "", false
	}
	var all []string
	if s.Links != nil {
		all = append(all, s.Links.Of(c.Reference()))
	}
	for _, t := range s.Unsubscribe {
		all = append(all, fill(t, c.ID, c.To))
	}
	all = slices.DeleteFunc(all, func(u string) bool { return len(u) > longLink })
	if len(all) == 0 {
		return "", false
	}
	for i, u := range all {
		oneClick = oneClick || strings.HasPrefix(u, "https:")
		all[i] = "<" + u + ">"
	}
	return strings.Join(all, ",\r\n "), oneClick
}

// sender is who a letter is from: an address with or without a name, a name alone
// beside the provider's own address, or the provider's own.
func (s *Style) sender(from string) (*netmail.Address, error) {
	switch {
	case from == "":
		a := s.From
		return &a, nil
	case len(from) <= longWord && !strings.Contains(from, "@"):
		return &netmail.Address{Name: from, Address: s.From.Address}, nil
	}
	a, err := netmail.ParseAddress(from)
	if err == nil && len(a.Name) > longWord {
		err = errors.New("the name is too long")
	}
	return a, err
}

func (s *Style) returnPath(from *netmail.Address) string {
	if s.ReturnPath != "" {
		return s.ReturnPath
	}
	return from.Address
}
