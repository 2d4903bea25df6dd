package tencent_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/tencent"
	"github.com/weirhq/weir/schemas"
)

const (
	secretID  = "AKIDtestKeyOfNobody000000000000000000"
	secretKey = "hunter2keyOfNobody00000000000000"
	token     = "0123456789abcdef-of-the-address"
	app       = "1400006666"
)

func settings(endpoint string) map[string]any {
	return map[string]any{
		"secret_id": "${TENCENT_SECRET_ID}", "secret_key": "${TENCENT_SECRET_KEY}", "app_id": app, "sign_name": "Weir",
		"sender_id": "Weir", "region": "ap-guangzhou", "endpoint": endpoint, "receipt_secret": "${TENCENT_RECEIPT_SECRET}",
	}
}

var env = map[string]string{"TENCENT_SECRET_ID": secretID, "TENCENT_SECRET_KEY": secretKey, "TENCENT_RECEIPT_SECRET": token}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "tencent-sms", Type: tencent.Type, Channels: schemas.ProviderTypes["tencent-sms"],
		To:          map[schemas.Channel]string{schemas.ChannelSMS: "+8613800000000"},
		Settings:    settings,
		Env:         env,
		Optional:    []string{"sign_name", "sender_id", "region", "receipt_secret"},
		Own:         map[string]any{"id": "449739", "sign": "Weir", "params": []any{"code", "name"}},
		Start:       func(t providertest.T) providertest.Server { return newServer().Start(t) },
		UnknownCode: "NoSuchCode.Yet",
		Lacks:       []providertest.Lack{providertest.LacksIdempotency, providertest.LacksBody, providertest.LacksRetryAfter},
		Receipts:    "callbacks, a secret in the address",
		Idempotency: "none: a repeated call is sent twice",
	})
}

// server is Tencent as its documentation has it. It reads requests with code of its
// own, so that a mistake in the adapter's signing is seen.
type server struct{ ids atomic.Int64 }

func newServer() providertest.HTTP {
	s := &server{}
	return providertest.HTTP{Take: s.take, Refuse: s.refuse}
}

type status struct {
	SerialNo       string
	PhoneNumber    string
	Fee            int
	SessionContext string
	Code           string
	Message        string
	IsoCode        string
}

func (s *server) take(r *http.Request, body []byte) (providertest.Message, providertest.Answer, error) {
	m, err := read(r, body)
	id := fmt.Sprintf("5000:10456459%05d15285225800", s.ids.Add(1))
	return m, reply(map[string]any{"SendStatusSet": []status{{id, m.To, 1, m.Reference, "Ok", "send success", "CN"}}, "RequestId": "a0aabda6-cf91-4f3e-a81f-9198114a2279"}), err
}

// refuse answers as Tencent does: what holds for the call is an error, what holds for
// its number a status, and both come with status 200. The texts quote what came.
func (s *server) refuse(r *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
	m, err := read(r, body)
	code := b.Code
	switch {
	case b.Forbidden:
		code = "AuthFailure.SignatureFailure"
	case b.Throttle != 0:
		code = "RequestLimitExceeded"
	}
	if err != nil {
		code = "MissingParameter.Test"
	}
	text := "no: " + m.To + " " + m.Params["1"] + " " + secretID
	ofNumber := strings.HasPrefix(code, "FailedOperation") || strings.HasPrefix(code, "LimitExceeded") || strings.HasPrefix(code, "InvalidParameterValue") || strings.HasPrefix(code, "UnsupportedOperation") || code == "Ok"
	if ofNumber {
		return reply(map[string]any{"SendStatusSet": []status{{"", m.To, 0, "", code, text, "CN"}}, "RequestId": "a0aabda6-cf91-4f3e-a81f-9198114a2279"})
	}
	return reply(map[string]any{"Error": map[string]string{"Code": code, "Message": text}, "RequestId": "ed93f3cb-f35e-473f-b9f3-0d451b8b79c6"})
}

func reply(response map[string]any) providertest.Answer {
	b, _ := json.Marshal(map[string]any{"Response": response})
	return providertest.Answer{Header: map[string]string{"Content-Type": "application/json"}, Body: string(b)}
}

// read verifies a request and understands it.
func read(r *http.Request, body []byte) (m providertest.Message, err error) {
	if err := verify(r, body); err != nil {
		return m, err
	}
	if r.Header.Get("X-TC-Action") != "SendSms" || r.Header.Get("X-TC-Version") != "2021-01-11" || r.Header.Get("X-TC-Region") == "" {
		return m, errors.New("not SendSms of 2021-01-11")
	}
	var p struct {
		PhoneNumberSet   []string
		SmsSdkAppId      string
		TemplateId       string
		SignName         string
		TemplateParamSet []string
		ExtendCode       string
		SessionContext   string
		SenderId         string
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return m, err
	}
	if len(p.PhoneNumberSet) != 1 || p.SmsSdkAppId != app || p.TemplateId == "" || p.TemplateParamSet == nil || len(p.SessionContext) >= 512 {
		return m, fmt.Errorf("parameters: %+v", p)
	}
	m.To, m.Template, m.Reference, m.From = p.PhoneNumberSet[0], p.TemplateId, p.SessionContext, p.SignName
	if !strings.HasPrefix(m.To, "+86") {
		m.From = p.SenderId
	} else if p.SignName == "" || p.SenderId != "" {
		return m, errors.New("FailedOperation.SignatureIncorrectOrUnapproved")
	}
	m.Params = make(map[string]string)
	for i, v := range p.TemplateParamSet {
		m.Params[strconv.Itoa(i+1)] = v
	}
	return m, nil
}

// verify follows the page step by step from what arrived.
func verify(r *http.Request, body []byte) error {
	auth := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "TC3-HMAC-SHA256 "), ", ")
	if len(auth) != 3 || r.Method != http.MethodPost || r.RequestURI != "/" {
		return errors.New("AuthFailure.InvalidAuthorization")
	}
	credential := strings.Split(strings.TrimPrefix(auth[0], "Credential="), "/")
	list, signature := strings.TrimPrefix(auth[1], "SignedHeaders="), strings.TrimPrefix(auth[2], "Signature=")
	seconds, err := strconv.ParseInt(r.Header.Get("X-TC-Timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("AuthFailure.SignatureExpire")
	}
	if len(credential) != 4 || credential[0] != secretID || credential[1] != time.Unix(seconds, 0).UTC().Format("2006-01-02") || credential[2] != "sms" || credential[3] != "tc3_request" {
		return errors.New("AuthFailure.SecretIdNotFound")
	}
	if !strings.Contains(list, "content-type;host") {
		return errors.New("content-type and host have to be signed")
	}
	var canonical strings.Builder
	canonical.WriteString("POST\n/\n\n")
	for _, name := range strings.Split(list, ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.ToLower(value))
	}
	fmt.Fprintf(&canonical, "\n%s\n%x", list, sha256.Sum256(body))
	toSign := fmt.Sprintf("TC3-HMAC-SHA256\n%d\n%s\n%x", seconds, strings.Join(credential[1:], "/"), sha256.Sum256([]byte(canonical.String())))
	sign := func(key []byte) hash.Hash { return hmac.New(sha256.New, key) }
	date := sign([]byte("TC3" + secretKey))
	date.Write([]byte(credential[1]))
	of := sign(date.Sum(nil))
	of.Write([]byte("sms"))
	request := sign(of.Sum(nil))
	request.Write([]byte("tc3_request"))
	last := sign(request.Sum(nil))
	last.Write([]byte(toSign))
	if fmt.Sprintf("%x", last.Sum(nil)) != signature {
		return errors.New("AuthFailure.SignatureFailure")
	}
	return nil
}
