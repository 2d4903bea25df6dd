package aliyun_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider/aliyun"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/schemas"
)

const (
	keyID  = "LTAI5tTestKeyOfNobody00"
	secret = "hunter2secretOfNobody000000000"
	token  = "0123456789abcdef-of-the-address"
)

func settings(endpoint string) map[string]any {
	return map[string]any{
		"access_key": "${ALIYUN_ACCESS_KEY}", "access_secret": "${ALIYUN_ACCESS_SECRET}", "sign_name": "Weir",
		"region": "cn-hangzhou", "endpoint": endpoint, "receipt_secret": "${ALIYUN_RECEIPT_SECRET}",
	}
}

var env = map[string]string{"ALIYUN_ACCESS_KEY": keyID, "ALIYUN_ACCESS_SECRET": secret, "ALIYUN_RECEIPT_SECRET": token}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "aliyun-sms", Type: aliyun.Type, Channels: schemas.ProviderTypes["aliyun-sms"],
		To:          map[schemas.Channel]string{schemas.ChannelSMS: "+8613800000000"},
		Settings:    settings,
		Env:         env,
		Optional:    []string{"sign_name", "region", "receipt_secret"},
		Own:         map[string]any{"code": "SMS_1234", "sign": "Weir", "params": []any{"code", "name"}},
		Start:       func(t providertest.T) providertest.Server { return newServer().Start(t) },
		UnknownCode: "NoSuchCode.Yet",
		Lacks:       []providertest.Lack{providertest.LacksIdempotency, providertest.LacksBody, providertest.LacksRetryAfter},
		Receipts:    "SmsReport and SmsUp by HTTP, a secret in the address",
		Idempotency: "none: a repeated call is sent twice",
	})
}

// server is Aliyun as its documentation has it. It reads requests with code of its
// own, so that a mistake in the adapter's signing or escaping is seen.
type server struct {
	mu     sync.Mutex
	nonces map[string]bool
	ids    int
}

func newServer() providertest.HTTP {
	s := &server{nonces: make(map[string]bool)}
	return providertest.HTTP{Take: s.take, Refuse: s.refuse}
}

func (s *server) take(r *http.Request, body []byte) (providertest.Message, providertest.Answer, error) {
	m, err := s.read(r, body)
	s.mu.Lock()
	s.ids++
	id := s.ids
	s.mu.Unlock()
	return m, reply(http.StatusOK, map[string]string{"Message": "OK", "RequestId": "F655A8D5-B967-440B-8683-DAD6FF8DE990", "BizId": fmt.Sprintf("90061935446353%04d^0", id), "Code": "OK"}), err
}

// refuse answers as Aliyun does: what its business refuses has status 200, what its
// gateway refuses another. The texts quote what came.
func (s *server) refuse(r *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
	m, err := s.read(r, body)
	status, code := http.StatusOK, b.Code
	switch {
	case b.Forbidden:
		status, code = http.StatusBadRequest, "SignatureDoesNotMatch"
	case b.Throttle != 0:
		status, code = http.StatusBadRequest, "Throttling.User"
	case !strings.HasPrefix(code, "isv.") && !strings.HasPrefix(code, "isp.") && code != "OK":
		status = http.StatusBadRequest
	}
	if err != nil {
		code = "MissingParameter.Test"
	}
	return reply(status, map[string]string{"Message": "no: " + m.To + " " + strings.TrimPrefix(m.To, "+86") + " " + m.Params["code"] + " " + keyID, "RequestId": "8906582E-6722-409A-A6C4-0E7863B733A5", "Code": code, "HostId": "dysmsapi.aliyuncs.com"})
}

func reply(status int, fields map[string]string) providertest.Answer {
	b, _ := json.Marshal(fields)
	return providertest.Answer{Status: status, Header: map[string]string{"Content-Type": "application/json;charset=utf-8"}, Body: string(b)}
}

// read verifies a request and understands it.
func (s *server) read(r *http.Request, body []byte) (m providertest.Message, err error) {
	if err := s.verify(r, body); err != nil {
		return m, err
	}
	if r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("X-Acs-Action") != "SendSms" || r.Header.Get("X-Acs-Version") != "2017-05-25" {
		return m, fmt.Errorf("%s %s is not SendSms of 2017-05-25", r.Method, r.URL.Path)
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return m, err
	}
	for name, values := range q {
		if !strings.Contains(" PhoneNumbers SignName TemplateCode TemplateParam OutId ", " "+name+" ") || len(values) != 1 || values[0] == "" {
			return m, fmt.Errorf("parameter %s: %q", name, values)
		}
	}
	if q.Get("PhoneNumbers") == "" || q.Get("SignName") == "" || q.Get("TemplateCode") == "" {
		return m, errors.New("a required parameter is missing")
	}
	if p := q.Get("TemplateParam"); p != "" {
		if err := json.Unmarshal([]byte(p), &m.Params); err != nil {
			return m, err
		}
	}
	if len([]rune(q.Get("OutId"))) >= 256 {
		return m, errors.New("OutId is too long")
	}
	m.From, m.Template, m.Reference = q.Get("SignName"), q.Get("TemplateCode"), q.Get("OutId")
	switch n := q.Get("PhoneNumbers"); {
	case len(n) == 11 && n[0] == '1' && n[1] >= '3':
		m.To = "+86" + n
	case strings.Trim(n, "0123456789") == "":
		m.To = "+" + n
	default:
		return m, fmt.Errorf("PhoneNumbers %s", n)
	}
	return m, nil
}

// verify follows the page step by step from what arrived.
func (s *server) verify(r *http.Request, body []byte) error {
	var credential, list, signature string
	if _, err := fmt.Sscanf(strings.NewReplacer("Credential=", "", "SignedHeaders=", "", "Signature=", "", ",", " ").Replace(r.Header.Get("Authorization")), "ACS3-HMAC-SHA256 %s %s %s", &credential, &list, &signature); err != nil {
		return fmt.Errorf("Authorization: %w", err)
	}
	if credential != keyID {
		return errors.New("no such AccessKey")
	}
	var headers string
	for name := range strings.SplitSeq(list, ";") {
		v := r.Header.Get(name)
		if name == "host" {
			v = r.Host
		}
		headers += name + ":" + v + "\n"
	}
	for name := range r.Header {
		if n := strings.ToLower(name); (strings.HasPrefix(n, "x-acs-") || n == "content-type") && !strings.Contains(";"+list+";", ";"+n+";") {
			return fmt.Errorf("%s is not signed", n)
		}
	}
	if !sort.StringsAreSorted(strings.Split(list, ";")) || !strings.Contains(list, "host;") {
		return errors.New("SignedHeaders")
	}
	sum := sha256.Sum256(body)
	if got := r.Header.Get("X-Acs-Content-Sha256"); got != hex.EncodeToString(sum[:]) {
		return errors.New("x-acs-content-sha256")
	}
	when, err := time.Parse("2006-01-02T15:04:05Z", r.Header.Get("X-Acs-Date"))
	if err != nil || time.Since(when).Abs() > 15*time.Minute {
		return fmt.Errorf("x-acs-date: %w", err)
	}
	nonce := r.Header.Get("X-Acs-Signature-Nonce")
	s.mu.Lock()
	used := s.nonces[nonce]
	s.nonces[nonce] = true
	s.mu.Unlock()
	if nonce == "" || used {
		return errors.New("SignatureNonceUsed")
	}
	// The query is taken apart by hand and put together anew, sorted.
	var pairs []string
	if r.URL.RawQuery != "" {
		for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
			name, value, _ := strings.Cut(pair, "=")
			pairs = append(pairs, percent(name)+"="+percent(value))
		}
	}
	sort.Strings(pairs)
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + strings.Join(pairs, "&") + "\n" + headers + "\n" + list + "\n" + hex.EncodeToString(sum[:])
	of := sha256.Sum256([]byte(canonical))
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "ACS3-HMAC-SHA256\n%x", of)
	if want := fmt.Sprintf("%x", mac.Sum(nil)); want != signature {
		return errors.New("SignatureDoesNotMatch")
	}
	return nil
}

// percent takes an escaped text apart byte by byte and escapes it anew.
func percent(escaped string) string {
	raw, err := url.QueryUnescape(escaped)
	if err != nil {
		return escaped
	}
	var b strings.Builder
	for i := range len(raw) {
		if c := raw[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
