// Package letter writes the e-mail that a call asks for, in the format of RFC 5322
// and MIME: what adapters that take a whole message (smtp, ses) have in common.
//
// Nothing of a request can end a header or begin one: addresses are parsed and
// written anew, and a subject that is not plain is an encoded word. The same call
// gives the same bytes, but for the date: the Message-ID is that of the message over
// all its attempts, so that whoever drops what it has seen drops a second copy.
//
// It sends nothing, signs nothing (DKIM is the relay's), and has no attachments.
// A call's data does not become headers.
package letter

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	netmail "net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wneessen/go-mail"

	"github.com/weirhq/weir/processor/provider"
)

// Letter is an e-mail, ready to be sent.
type Letter struct {
	From, To string // of the envelope: addresses without brackets, quoted where they must be
	UTF8     bool   // its addresses need SMTPUTF8 (RFC 6531)
	ID       string // the Message-ID, without brackets
	Bytes    []byte // header and body; lines end in CRLF, and all is ASCII unless UTF8
}

// Write writes the e-mail of a call. The outcome is nil unless there is none, and
// then permanent.
func (s *Style) Write(c *provider.Call, at time.Time) (*Letter, *provider.Outcome) {
	from, err := s.sender(c.From)
	if err != nil {
		return nil, bad("bad_from", "from is no address")
	}
	to, err := netmail.ParseAddress("<" + c.To + ">")
	if err != nil || to.Name != "" {
		o := bad("bad_recipient", "the recipient is no address")
		o.OfRecipient = true
		return nil, o
	}
	l := &Letter{From: bare(s.returnPath(from)), To: bare(to.Address), ID: messageID(c.ID) + "@" + domain(from.Address)}
	l.UTF8 = !ascii(l.From) || !ascii(l.To) || !ascii(from.Address)

	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	m.FromMailAddress(from)
	m.ToMailAddress(to)
	if c.ReplyTo != "" {
		replies, err := netmail.ParseAddressList(c.ReplyTo)
		if err != nil {
			return nil, bad("bad_reply_to", "reply_to is no address")
		}
		m.ReplyToMailAddress(replies...)
		for _, r := range replies {
			l.UTF8 = l.UTF8 || !ascii(r.Address)
		}
	}
	m.SetGenHeader(mail.HeaderSubject, words(c.Content.Subject))
	m.SetMessageIDWithValue(l.ID)
	m.SetDateWithValue(at)
	// A program wrote it: vacation programs and the like do not answer (RFC 3834).
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	if list, oneClick := s.unsubscribe(c); list != "" {
		m.SetGenHeaderPreformatted(mail.HeaderListUnsubscribe, list)
		if oneClick {
			m.SetGenHeader(mail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
		}
	}
	body := func(add func(mail.ContentType, string, ...mail.PartOption), kind mail.ContentType, text string) {
		text = lines(text)
		add(kind, text, mail.WithPartEncoding(encoding(text)))
	}
	switch {
	case c.Content.HTML == "":
		body(m.SetBodyString, mail.TypeTextPlain, c.Content.Body)
	case c.Content.Body == "":
		body(m.SetBodyString, mail.TypeTextHTML, c.Content.HTML)
	default:
		m.SetBoundary(boundary(c))
		body(m.SetBodyString, mail.TypeTextPlain, c.Content.Body)
		body(m.AddAlternativeString, mail.TypeTextHTML, c.Content.HTML)
	}
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		return nil, bad("bad_content", "the message cannot be encoded")
	}
	l.Bytes = b.Bytes()
	return l, nil
}

func bad(code, text string) *provider.Outcome {
	return &provider.Outcome{Kind: provider.Permanent, Code: code, Text: text}
}

// bare is an address as an envelope has it.
func bare(address string) string {
	a := netmail.Address{Address: address}
	return strings.TrimSuffix(strings.TrimPrefix(a.String(), "<"), ">")
}

func domain(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}

// messageID is the left part of a Message-ID: an id of Weir's as it is, anything
// else hashed, as a client's id may hold what a Message-ID cannot.
func messageID(id string) string {
	if id != "" && len(id) <= 100 && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// boundary cannot be found in a text by chance, and no text can be written to hold
// its own.
func boundary(c *provider.Call) string {
	sum := sha256.Sum256([]byte(c.ID + "\x00" + c.Content.Body + "\x00" + c.Content.HTML))
	return "weir-" + hex.EncodeToString(sum[:20])
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' })
}

// lines ends every line in CRLF, which text is made of (RFC 2046, 4.1.1), also
// under base64.
func lines(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.ReplaceAll(s, "\n", "\r\n")
}

// encoding is the shorter one.
func encoding(s string) mail.Encoding {
	many := 0
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			many++
		}
	}
	if many > len(s)/6 {
		return mail.EncodingB64
	}
	return mail.EncodingQP
}

// longWord is what a line of 998 bytes surely takes, with the header's name.
const longWord = 400

// words is a text for a header: as it is where that is surely read back the same,
// else encoded words (RFC 2047), none longer than 75 characters or cut within a
// character.
func words(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.Contains(s, "=?") && !strings.Contains(s, "  ")
	for word := range strings.SplitSeq(s, " ") {
		plain = plain && len(word) <= longWord
	}
	for _, r := range s {
		plain = plain && r >= ' ' && r <= '~'
	}
	if plain {
		return s
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	var out []string
	for s != "" {
		n := min(len(s), 45) // 60 characters of base64
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		out = append(out, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(s[:n]))+"?=")
		s = s[n:]
	}
	return strings.Join(out, " ")
}

// Plain reads words back: for tests and transcripts.
func Plain(header string) string {
	s, err := new(mime.WordDecoder).DecodeHeader(header)
	if err != nil {
		return header
	}
	return s
}
