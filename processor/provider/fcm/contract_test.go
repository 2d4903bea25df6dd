package fcm_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider/fcm"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/schemas"
)

const (
	device  = "fcm-token-of-a-device:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"
	project = "weir-example"
	email   = "weir@weir-example.iam.gserviceaccount.com"
	access  = "ya29.access-token-of-the-test"
)

var key = func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
}()

func credentials() string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": project, "private_key_id": "key-1", "client_email": email,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "https://oauth2.googleapis.com/token",
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "fcm", Type: fcm.Type, Channels: []schemas.Channel{schemas.ChannelPush},
		To: map[schemas.Channel]string{schemas.ChannelPush: device},
		Settings: func(endpoint string) map[string]any {
			return map[string]any{"endpoint": endpoint, "credentials": "${FCM_CREDENTIALS}", "token_uri": endpoint + "/token"}
		},
		Env:         map[string]string{"FCM_CREDENTIALS": credentials()},
		Optional:    []string{"token_uri"},
		Start:       start,
		UnknownCode: "BRAND_NEW_CODE",
		Lacks:       []providertest.Lack{providertest.LacksReference, providertest.LacksIdempotency, providertest.LacksFrom},
		Receipts:    "none: a device that is gone is told in the answer",
		Idempotency: "none: a call that is repeated is sent twice",
	})
}

// token verifies a request for an access token as Google's "Using OAuth 2.0 for server
// to server applications" (HTTP/REST) has it, without the library that made it.
func token(r *http.Request, body []byte) error {
	form, err := url.ParseQuery(string(body))
	parts := strings.Split(form.Get("assertion"), ".")
	if err != nil || r.Method != http.MethodPost || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || len(parts) != 3 {
		return fmt.Errorf("%s %v", r.Method, err)
	}
	var raw [3][]byte
	for i, p := range parts {
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			return err
		}
	}
	var h struct{ Alg, Typ, Kid string }
	var c struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	if err := json.Unmarshal(raw[0], &h); err != nil {
		return err
	}
	if err := json.Unmarshal(raw[1], &c); err != nil {
		return err
	}
	if h.Alg != "RS256" || h.Kid != "key-1" || c.Iss != email || c.Scope != "https://www.googleapis.com/auth/firebase.messaging" || c.Aud != "http://"+r.Host+r.URL.Path || c.Exp-c.Iat > 3610 || time.Now().Unix() < c.Iat-5 {
		return fmt.Errorf("%s %s", raw[0], raw[1])
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], raw[2])
}

// start starts FCM as the reference of projects.messages.send has it, and Google's
// server of tokens.
func start(t providertest.T) providertest.Server {
	var ids atomic.Int64
	return providertest.HTTP{
		Aside: func(r *http.Request, body []byte) (providertest.Answer, bool) {
			if r.URL.Path != "/token" {
				return providertest.Answer{}, false
			}
			if err := token(r, body); err != nil {
				return providertest.Answer{Status: 400, Body: `{"error":"invalid_grant","error_description":` + strconv.Quote(err.Error()) + `}`}, true
			}
			return providertest.Answer{Header: map[string]string{"Content-Type": "application/json"}, Body: `{"access_token":"` + access + `","expires_in":3599,"token_type":"Bearer"}`}, true
		},
		Take: func(r *http.Request, body []byte) (m providertest.Message, a providertest.Answer, err error) {
			if r.Method != http.MethodPost || r.URL.Path != "/v1/projects/"+project+"/messages:send" || r.Header.Get("Authorization") != "Bearer "+access || r.Header.Get("Content-Type") != "application/json" {
				return m, a, fmt.Errorf("%s %s", r.Method, r.URL)
			}
			var got struct {
				Message struct {
					Token        string
					Notification struct{ Title, Body string }
					Data         map[string]string
				}
			}
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(&got); err != nil {
				return m, a, err
			}
			g := got.Message
			m = providertest.Message{To: g.Token, Title: g.Notification.Title, Body: g.Notification.Body, Data: g.Data}
			return m, providertest.Answer{Body: fmt.Sprintf(`{"name":"projects/%s/messages/0:%d"}`, project, ids.Add(1))}, nil
		},
		Refuse: func(_ *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
			code := b.Code
			a := providertest.Answer{Header: map[string]string{"Content-Type": "application/json; charset=UTF-8"}}
			switch {
			case b.Throttle != 0:
				code = "QUOTA_EXCEEDED"
				if b.Throttle > 0 {
					a.Header["Retry-After"] = strconv.Itoa(int(b.Throttle / time.Second))
				}
			case b.Forbidden:
				code = "UNAUTHENTICATED"
			}
			return refusal(a, code, string(body))
		},
	}.Start(t)
}

// statuses are the HTTP status and google.rpc.Code of FCM's codes ("FCM error codes").
var statuses = map[string]struct {
	http int
	rpc  string
}{
	"UNSPECIFIED_ERROR": {500, "UNKNOWN"}, "INVALID_ARGUMENT": {400, "INVALID_ARGUMENT"}, "INVALID_ARGUMENT:token": {400, "INVALID_ARGUMENT"}, "UNREGISTERED": {404, "NOT_FOUND"},
	"SENDER_ID_MISMATCH": {403, "PERMISSION_DENIED"}, "QUOTA_EXCEEDED": {429, "RESOURCE_EXHAUSTED"}, "UNAVAILABLE": {503, "UNAVAILABLE"}, "INTERNAL": {500, "INTERNAL"},
	"THIRD_PARTY_AUTH_ERROR": {401, "UNAUTHENTICATED"}, "BRAND_NEW_CODE": {400, "INVALID_ARGUMENT"},
}

func refusal(a providertest.Answer, code, said string) providertest.Answer {
	s, own := statuses[code]
	e := map[string]any{"message": "not " + said}
	if own {
		e["status"] = s.rpc
		e["details"] = []any{map[string]any{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": strings.TrimSuffix(code, ":token")}}
	} else { // of all of Google's interfaces
		s.http = map[string]int{"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 429, "DEADLINE_EXCEEDED": 504}[code]
		e["status"] = code
	}
	if strings.HasSuffix(code, ":token") {
		e["message"] = "The registration token is not a valid FCM registration token: " + said
	}
	e["code"] = s.http
	b, _ := json.Marshal(map[string]any{"error": e})
	a.Status, a.Body = s.http, string(b)
	return a
}
