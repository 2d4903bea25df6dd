package ingest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weirhq/weir/ingest/client"
)

// problemType begins every problem's type. A type is a name: nothing need
// stand at its address.
const problemType = "https://github.com/weirhq/weir/problems/"

// kind is what all problems of one code have in common.
type kind struct {
	code   string // stable: what programs branch on
	status int
	slug   string // of its type
	title  string // for people, the same for every occurrence
}

// Every problem that this package answers with. openapi.yaml lists the codes,
// and a test holds them to one another.
var (
	invalidRequest       = newKind(http.StatusBadRequest, "invalid_request", "invalid-request", "The request is invalid")
	malformedHTTP        = newKind(http.StatusBadRequest, "malformed_http", "malformed-http", "Not HTTP as it should be")
	incompleteBody       = newKind(http.StatusBadRequest, "incomplete_body", "incomplete-body", "The body broke off")
	badIdempotencyKey    = newKind(http.StatusBadRequest, "bad_idempotency_key", "bad-idempotency-key", "The Idempotency-Key header is invalid")
	idempotencyConflict  = newKind(http.StatusBadRequest, "idempotency_key_conflict", "idempotency-key-conflict", "Two different idempotency keys")
	badHook              = newKind(http.StatusBadRequest, "bad_hook", "bad-hook", "The provider's call cannot be read")
	forgedHook           = newKind(http.StatusUnauthorized, "forged_hook", "forged-hook", "Not surely the provider")
	unauthenticated      = newKind(http.StatusUnauthorized, "unauthenticated", "unauthenticated", "Who are you?")
	forbiddenReference   = newKind(http.StatusForbidden, "forbidden_reference", "forbidden-reference", "Not for a policy over HTTP")
	forbiddenScope       = newKind(http.StatusForbidden, "forbidden_scope", "forbidden-scope", "Not with this key")
	forbiddenTenant      = newKind(http.StatusForbidden, "forbidden_tenant", "forbidden-tenant", "Not your tenant")
	noTestProvider       = newKind(http.StatusForbidden, "no_test_provider", "no-test-provider", "A test key reaches simulated providers only")
	crossOrigin          = newKind(http.StatusForbidden, "cross_origin", "cross-origin", "Not from another site's page")
	unknownRoute         = newKind(http.StatusNotFound, "not_found", "not-found", "There is nothing here")
	noHook               = newKind(http.StatusNotFound, "no_hook", "no-hook", "No provider makes such calls")
	unknownMessage       = newKind(http.StatusNotFound, "message_not_found", "message-not-found", "No such message")
	unknownResource      = newKind(http.StatusNotFound, "resource_not_found", "resource-not-found", "No such entry of the policy")
	methodRefused        = newKind(http.StatusMethodNotAllowed, "method_not_allowed", "method-not-allowed", "Not with this method")
	keyReused            = newKind(http.StatusConflict, "idempotency_key_reused", "idempotency-key-reused", "Another message has this idempotency key")
	notToRetry           = newKind(http.StatusConflict, "not_to_retry", "not-to-retry", "It has not ended so that it could be sent again")
	noCallbacks          = newKind(http.StatusConflict, "no_callbacks", "no-callbacks", "The policy asks for no callbacks")
	requestGone          = newKind(http.StatusGone, "request_gone", "request-gone", "Its request is no longer there")
	requestTimeout       = newKind(http.StatusRequestTimeout, "request_timeout", "request-timeout", "The body came too slowly")
	policyConflict       = newKind(http.StatusConflict, "policy_conflict", "policy-conflict", "The rest of the policy does not allow it")
	policyShare          = newKind(http.StatusConflict, "policy_share", "policy-share", "The tenant's share of the policy is used up")
	lastAdminKey         = newKind(http.StatusConflict, "last_admin_key", "last-admin-key", "It is the last admin key")
	preconditionFailed   = newKind(http.StatusPreconditionFailed, "precondition_failed", "precondition-failed", "Another version is in force")
	tooLarge             = newKind(http.StatusRequestEntityTooLarge, "too_large", "too-large", "The request is too large")
	unsupportedMediaType = newKind(http.StatusUnsupportedMediaType, "unsupported_media_type", "unsupported-media-type", "Not JSON")
	unknownExpectation   = newKind(http.StatusExpectationFailed, "unknown_expectation", "unknown-expectation", "Nothing to expect")
	headersTooLarge      = newKind(http.StatusRequestHeaderFieldsTooLarge, "headers_too_large", "headers-too-large", "The header is too large")
	misdirected          = newKind(http.StatusMisdirectedRequest, "misdirected_host", "misdirected-host", "Not this server's name")
	clientRate           = newKind(http.StatusTooManyRequests, client.CodeClientRate, "client-rate", "Too many calls")
	tooManyStreams       = newKind(http.StatusTooManyRequests, "too_many_streams", "client-rate", "Too many streams")
	messageRejected      = newKind(http.StatusUnprocessableEntity, "message_rejected", "message-rejected", "The message cannot be sent")
	messageSuppressed    = newKind(http.StatusUnprocessableEntity, "message_suppressed", "message-suppressed", "The recipient opted out")
	messageExpired       = newKind(http.StatusUnprocessableEntity, "message_expired", "message-expired", "The message expired")
	messageCancelled     = newKind(http.StatusUnprocessableEntity, "message_cancelled", "message-cancelled", "The message was cancelled")
	suppressionRefused   = newKind(http.StatusUnprocessableEntity, "suppression_refused", "suppression-refused", "The suppression cannot be made")
	noDecider            = newKind(http.StatusUnprocessableEntity, "no_decider", "no-decider", "Nobody decides without sending")
	quotaExceeded        = newKind(http.StatusTooManyRequests, client.CodeQuotaExceeded, "quota-exceeded", "A limit refused the message")
	internal             = newKind(http.StatusInternalServerError, "internal", "internal", "Weir made a mistake")
	kafkaUnavailable     = newKind(http.StatusServiceUnavailable, "kafka_unavailable", "kafka-unavailable", "Kafka does not answer")
	undecided            = newKind(http.StatusServiceUnavailable, "undecided", "undecided", "Admission does not answer")
	overloaded           = newKind(http.StatusServiceUnavailable, "overloaded", "overloaded", "Too many requests wait for Kafka")
	busy                 = newKind(http.StatusServiceUnavailable, "busy", "busy", "It is at work on another one")
	historyUnavailable   = newKind(http.StatusServiceUnavailable, "history_unavailable", "history-unavailable", "ClickHouse does not answer")
	hookUnavailable      = newKind(http.StatusServiceUnavailable, "hook_unavailable", "hook-unavailable", "The provider's calls cannot be taken now")
	policyBusy           = newKind(http.StatusServiceUnavailable, "policy_busy", "policy-busy", "Others change the policy")
	notReady             = newKind(http.StatusServiceUnavailable, "not_ready", "not-ready", "Not ready")
)

// kinds lists the above, for the test.
var kinds []kind

func newKind(status int, code, slug, title string) kind {
	k := kind{code: code, status: status, slug: slug, title: title}
	kinds = append(kinds, k)
	return k
}

// problem makes one occurrence. detail is for people and holds no value that
// came from outside.
func (k kind) problem(detail string, errors ...client.FieldError) *client.Problem {
	return &client.Problem{Type: problemType + k.slug, Title: k.title, Status: k.status, Code: k.code, Detail: detail, Errors: errors}
}

// after asks the caller to try again no sooner than d from now.
func after(p *client.Problem, d time.Duration) *client.Problem {
	p.RetryAfter = d
	return p
}

// refuse writes a problem (RFC 9457); under /api/ it is said as the legacy API
// says it.
func refuse(w http.ResponseWriter, r *http.Request, p *client.Problem) {
	p.Instance = r.URL.EscapedPath()
	if p.Code == overloaded.code || p.Code == tooManyStreams.code { // nothing was begun
		giveBack(w)
	}
	if p.RetryAfter > 0 {
		seconds := (p.RetryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if ofLegacy(r) {
		answer(w, p.Status, "application/json", legacyProblem(p))
		return
	}
	answer(w, p.Status, "application/problem+json", p)
}

// answer writes one JSON value. What goes wrong here is the connection's
// concern: the status is already on its way.
func answer(w http.ResponseWriter, status int, contentType string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // every type that is answered can be written
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
