package tencent

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hookjson"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// shanghai is the zone of Tencent's times, which say none: UTC+8 all year.
var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

// answered is what Tencent wants to read; it sends twice more what was not answered
// so. https://cloud.tencent.com/document/api/382/59178
var answered = provider.Reply{Status: http.StatusOK, ContentType: "application/json; charset=utf-8", Body: []byte(`{"result":0,"errmsg":"OK"}`)}

type listener struct {
	name   string
	secret hooksecret.Secret
	logger *slog.Logger
}

// listen reads what Tencent calls back with. It needs settings.receipt_secret:
// Tencent signs nothing.
func listen(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
	if err := provider.Known(p.Settings, settings...); err != nil {
		return nil, err
	}
	s, err := hooksecret.Of(p, deps.Getenv)
	if err != nil {
		return nil, err
	}
	return &listener{name: p.Name, secret: s, logger: deps.Logger.With("provider", p.Name)}, nil
}

// report is one of the status callback's: 短信下发状态通知,
// https://cloud.tencent.com/document/api/382/59178
type report struct {
	UserReceiveTime hookjson.Text `json:"user_receive_time"`
	NationCode      hookjson.Text `json:"nationcode"`
	Mobile          hookjson.Text `json:"mobile"`
	ReportStatus    hookjson.Text `json:"report_status"`
	ErrMsg          hookjson.Text `json:"errmsg"` // the code
	SID             hookjson.Text `json:"sid"`
	Ext             hookjson.Text `json:"ext"` // SessionContext, where Tencent was asked to switch it on
}

// Receipts reads the status callback.
func (l *listener) Receipts(h *provider.Hook) ([]provider.Receipt, provider.Reply, error) {
	return read(l, h, l.receipt)
}

func (l *listener) receipt(r report, at time.Time) (provider.Receipt, error) {
	receipt := provider.Receipt{Provider: l.name}
	ref, bad := provider.ParseReference(string(r.Ext))
	if bad == nil {
		receipt = ref.Receipt(l.name)
	} else if to, err := number(r.NationCode, r.Mobile); err == nil {
		receipt.To = to
	}
	receipt.ProviderMessageID = httpcall.ID(string(r.SID))
	if bad != nil && receipt.ProviderMessageID == "" {
		return receipt, errors.New("neither sid nor an ext of Weir's")
	}
	switch r.ReportStatus {
	case "SUCCESS":
		receipt.Status = schemas.StatusDelivered
	case "FAIL":
		receipt.Status = schemas.StatusUndelivered
		row, _ := codes.OfReceipt(string(r.ErrMsg))
		receipt.Text, receipt.Suppress = row.Means, row.Suppress
		receipt.Code = provider.CodeText(string(r.ErrMsg))
	default:
		return receipt, errors.New("report_status is neither SUCCESS nor FAIL")
	}
	receipt.At = schemas.MillisOf(at)
	if t, err := time.ParseInLocation(time.DateTime, string(r.UserReceiveTime), shanghai); err == nil {
		receipt.At = schemas.MillisOf(t)
	}
	return receipt, nil
}

// up is the reply callback's: 短信回复通知, https://cloud.tencent.com/document/api/382/59179
type up struct {
	Extend     hookjson.Text `json:"extend"`
	Mobile     hookjson.Text `json:"mobile"`
	NationCode hookjson.Text `json:"nationcode"`
	Text       hookjson.Text `json:"text"`
	Time       hookjson.Text `json:"time"` // Unix, seconds
}

// Inbound reads the reply callback. Tencent gives replies no id.
func (l *listener) Inbound(h *provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	return read(l, h, l.inbound)
}

func (l *listener) inbound(u up, at time.Time) (provider.Inbound, error) {
	from, err := number(u.NationCode, u.Mobile)
	if err != nil {
		return provider.Inbound{}, err
	}
	in := provider.Inbound{From: from, To: string(u.Extend), Channel: schemas.ChannelSMS, Text: string(u.Text), At: at}
	if s, err := strconv.ParseInt(string(u.Time), 10, 64); err == nil && s > 0 && s < maxUnix {
		in.At = time.Unix(s, 0)
	}
	return in, nil
}

const maxUnix = 1 << 33 // in the year 2242: later is no time in seconds

// number is the recipient that a country's code and a number name.
func number(nation, mobile hookjson.Text) (string, error) {
	r, err := recipient.Canonical(schemas.ChannelSMS, "+"+strings.TrimPrefix(string(nation), "+")+string(mobile), "")
	if err != nil {
		return "", errors.New("nationcode and mobile are no number") // the error of its own may quote it
	}
	return r.Key, nil
}

// read verifies a request and reads the elements of its array, or the one object
// that it is: a status callback is an array, a reply an object.
func read[T, R any](l *listener, h *provider.Hook, one func(T, time.Time) (R, error)) ([]R, provider.Reply, error) {
	if err := l.secret.Verify(h); err != nil {
		return nil, provider.Reply{}, err
	}
	if h.Method != http.MethodPost {
		return nil, provider.Reply{}, provider.ErrHook
	}
	out, err := hookjson.Each(h.Body, l.logger, func(in T) (R, bool, error) {
		r, err := one(in, h.At)
		return r, true, err
	})
	if err != nil {
		return nil, provider.Reply{}, err
	}
	return out, answered, nil
}
