package tencent

import (
	"encoding/json"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/processor/retry"
)

const codeOK = "Ok"

// answer is what Tencent answers: an error of the call, or a status for each number.
// Their messages may quote the number, and go nowhere.
type answer struct {
	Response struct {
		Error         *struct{ Code string }
		SendStatusSet []struct {
			SerialNo string
			Code     string
		}
	}
}

// decide says what came of a call that was answered.
func decide(a *httpcall.Answer, now time.Time) provider.Outcome {
	var got answer
	if a.Body == nil || json.Unmarshal(a.Body, &got) != nil {
		return a.Bare(now)
	}
	var code, serial string
	switch r := &got.Response; {
	case r.Error != nil:
		code = r.Error.Code
	case len(r.SendStatusSet) > 0:
		code, serial = r.SendStatusSet[0].Code, r.SendStatusSet[0].SerialNo
	}
	switch code {
	case "":
		return a.Bare(now)
	case codeOK:
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: httpcall.ID(serial)}
	}
	o := a.Coded(&codes, code, now)
	if wait, ok := waits[code]; ok {
		o.RetryAfter = wait(now)
	}
	return o
}

// waits are how long a refusal holds where its code says so. Nobody here knows when
// an hour or a day began, and nothing waits longer than retry.MaxTold for a provider.
var waits = map[string]func(now time.Time) time.Duration{
	"LimitExceeded.PhoneNumberThirtySecondLimit":     func(time.Time) time.Duration { return 30 * time.Second },
	"LimitExceeded.PhoneNumberOneHourLimit":          func(time.Time) time.Duration { return retry.MaxTold },
	"LimitExceeded.PhoneNumberDailyLimit":            func(time.Time) time.Duration { return retry.MaxTold },
	"LimitExceeded.PhoneNumberSameContentDailyLimit": func(time.Time) time.Duration { return retry.MaxTold },
	"FailedOperation.MarketingSendTimeConstraint":    func(now time.Time) time.Duration { return min(untilEight(now), retry.MaxTold) },
}

// untilEight is how long it is until 8 in the morning in Shanghai, when
// advertisements may be sent again: from 8 to 22 o'clock.
func untilEight(now time.Time) time.Duration {
	t := now.In(shanghai)
	eight := time.Date(t.Year(), t.Month(), t.Day(), 8, 0, 0, 0, shanghai)
	if !eight.After(t) {
		eight = eight.AddDate(0, 0, 1)
	}
	return eight.Sub(t) + time.Second
}
