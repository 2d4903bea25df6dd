package apns_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider/apns"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/schemas"
)

const (
	device = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
	team   = "DEF123GHIJ"
	keyID  = "ABC123DEFG"
	topic  = "com.example.weir"
)

var (
	key = func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		return k
	}()
	p8 = func() string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			panic(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}()
)

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "apns", Type: apns.Type, Channels: []schemas.Channel{schemas.ChannelPush},
		To:       map[schemas.Channel]string{schemas.ChannelPush: device},
		Settings: settings, Env: map[string]string{"APNS_KEY": p8},
		Start:       start,
		UnknownCode: "BrandNewReason",
		Lacks:       []providertest.Lack{providertest.LacksIdempotency, providertest.LacksRetryAfter, providertest.LacksFrom},
		Receipts:    "none: a device that is gone is told in the answer",
		Idempotency: "none that Apple promises; `apns-id` is the same at every attempt",
	})
}

func settings(endpoint string) map[string]any {
	return map[string]any{"endpoint": endpoint, "team_id": team, "key_id": keyID, "key": "${APNS_KEY}", "topic": topic}
}

// claims verifies a token as RFC 7515 and RFC 7518 (3.4) have it, without the library
// that made it.
func claims(header string) (iat int64, err error) {
	token, ok := strings.CutPrefix(header, "bearer ")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 {
		return 0, fmt.Errorf("no token")
	}
	var raw [3][]byte
	for i, p := range parts {
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			return 0, err
		}
	}
	var h struct{ Alg, Kid string }
	var c struct {
		Iss string
		Iat int64
	}
	if json.Unmarshal(raw[0], &h) != nil || json.Unmarshal(raw[1], &c) != nil || h.Alg != "ES256" || h.Kid != keyID || c.Iss != team || len(raw[2]) != 64 {
		return 0, fmt.Errorf("token %s.%s", raw[0], raw[1])
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(&key.PublicKey, sum[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:])) {
		return 0, fmt.Errorf("the signature is wrong")
	}
	if age := time.Now().Unix() - c.Iat; age < -5 || age > 3600 {
		return 0, fmt.Errorf("the token is %d seconds old", age)
	}
	return c.Iat, nil
}

// h2c lets a server speak HTTP/2 without TLS, and nothing else.
func h2c(srv *httptest.Server) {
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
}

// statuses are those of Apple's table of reasons.
var statuses = map[int]string{
	400: "BadCollapseId BadDeviceToken BadExpirationDate BadMessageId BadPriority BadTopic DeviceTokenNotForTopic DuplicateHeaders IdleTimeout InvalidPushType MissingDeviceToken MissingTopic PayloadEmpty TopicDisallowed BrandNewReason",
	403: "BadCertificate BadCertificateEnvironment ExpiredProviderToken Forbidden InvalidProviderToken MissingProviderToken UnrelatedKeyIdInToken BadEnvironmentKeyIdInToken",
	404: "BadPath", 405: "MethodNotAllowed", 410: "ExpiredToken Unregistered", 413: "PayloadTooLarge",
	429: "TooManyProviderTokenUpdates TooManyRequests", 500: "InternalServerError", 503: "ServiceUnavailable Shutdown",
}

// start starts APNs as "Sending notification requests to APNs" has it.
func start(t providertest.T) providertest.Server {
	return providertest.HTTP{
		Begin: h2c,
		Take: func(r *http.Request, body []byte) (m providertest.Message, a providertest.Answer, err error) {
			to, ok := strings.CutPrefix(r.URL.Path, "/3/device/")
			if _, err := claims(r.Header.Get("Authorization")); err != nil {
				return m, a, err
			}
			id := r.Header.Get("Apns-Id")
			if !ok || r.Method != http.MethodPost || r.ProtoMajor != 2 || r.Header.Get("Apns-Topic") != topic || r.Header.Get("Apns-Push-Type") != "alert" || len(id) != 36 || len(body) > 4096 {
				return m, a, fmt.Errorf("%s %s %v, %d bytes", r.Method, r.URL, r.Header, len(body))
			}
			var p map[string]json.RawMessage
			var aps struct{ Alert struct{ Title, Body string } }
			d := json.NewDecoder(bytes.NewReader(body))
			if err := d.Decode(&p); err != nil {
				return m, a, err
			}
			if err := json.Unmarshal(p["aps"], &aps); err != nil {
				return m, a, err
			}
			m = providertest.Message{To: to, Reference: id, Title: aps.Alert.Title, Body: aps.Alert.Body, Data: make(map[string]string)}
			for k, v := range p {
				if k == "aps" {
					continue
				}
				var text string
				if err := json.Unmarshal(v, &text); err != nil {
					return m, a, err
				}
				m.Data[k] = text
			}
			return m, providertest.Answer{Header: map[string]string{"apns-id": id}}, nil
		},
		Refuse: func(r *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
			reason := b.Code
			switch {
			case b.Throttle != 0:
				reason = "TooManyRequests"
			case b.Forbidden:
				reason = "InvalidProviderToken"
			}
			said, _ := json.Marshal(map[string]any{"reason": reason, "detail": r.URL.Path + string(body)})
			a := providertest.Answer{Header: map[string]string{"apns-id": r.Header.Get("Apns-Id")}, Body: string(said)}
			for status, reasons := range statuses {
				for name := range strings.FieldsSeq(reasons) {
					if name == reason {
						a.Status = status
					}
				}
			}
			return a
		},
	}.Start(t)
}
