package aliyun

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/processor/retry"
)

const (
	codeOK    = "OK"
	codeLimit = "isv.BUSINESS_LIMIT_CONTROL"
)

// answer is what Aliyun answers, taken or refused. Message may quote the number,
// and goes nowhere.
type answer struct {
	Code    string
	Message string
	BizID   string `json:"BizId"`
}

// decide says what came of a call that was answered.
func decide(a *httpcall.Answer, now time.Time) provider.Outcome {
	var got answer
	if a.Body == nil || json.Unmarshal(a.Body, &got) != nil || got.Code == "" {
		return a.Bare(now)
	}
	if got.Code == codeOK {
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: httpcall.ID(got.BizID)}
	}
	o := a.Coded(&codes, got.Code, now)
	if got.Code == codeLimit {
		o.RetryAfter = numberWait(got.Message, now)
	}
	return o
}

// numberWait is how long the limit of one number lasts that a message names
// (触发分钟级流控Permits:1, 触发小时级流控Permits:5, 触发天级流控Permits:10,
// 触发号码天级流控Permits:40); 0 when it names none. Minutes and hours are the
// clock's; a day is the 24 hours after the first message, of which nobody here
// knows when it was: https://help.aliyun.com/document_detail/2949332.html
func numberWait(message string, now time.Time) time.Duration {
	switch {
	case strings.Contains(message, "天级"):
		return retry.MaxTold
	case strings.Contains(message, "小时级"):
		return untilNext(time.Hour, now)
	case strings.Contains(message, "分钟级"):
		return untilNext(time.Minute, now)
	}
	return 0
}

// untilNext is when the clock's next minute or hour has surely begun at Aliyun
// too: its clock may be a second behind.
func untilNext(d time.Duration, now time.Time) time.Duration {
	return now.Truncate(d).Add(d).Sub(now) + time.Second
}
