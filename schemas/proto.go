package schemas

//go:generate go run ./weirpb/generate weir.proto weirpb/weir.pb.go

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weirhq/weir/schemas/weirpb"
)

// RequestToProto returns the protobuf form of a request. It fails where an
// action, channel or priority is none of the contract's, because an enum has no
// number for it.
func RequestToProto(q *Request) (*weirpb.SendRequest, error) {
	action := slices.Index(Actions, q.Action)
	if action < 0 {
		return nil, requestFault("/action", ReasonUnknownValue, "has no number in protobuf")
	}
	channel, ok := enumNumber(Channels, q.Channel)
	if !ok {
		return nil, requestFault("/channel", ReasonUnknownValue, "has no number in protobuf")
	}
	priority, ok := enumNumber(Priorities, q.Priority)
	if !ok {
		return nil, requestFault("/priority", ReasonUnknownValue, "has no number in protobuf")
	}
	return &weirpb.SendRequest{
		Action:         weirpb.Action(action),
		Tenant:         q.Tenant,
		Channel:        weirpb.Channel(channel),
		To:             q.To,
		Class:          q.Class,
		Template:       q.Template,
		Vars:           q.Vars,
		Subject:        q.Subject,
		Body:           q.Body,
		Html:           q.HTML,
		ReplyTo:        q.ReplyTo,
		Title:          q.Title,
		Data:           q.Data,
		From:           q.From,
		Priority:       weirpb.Priority(priority),
		Provider:       q.Provider,
		IdempotencyKey: q.IdempotencyKey,
		Id:             q.ID,
		SendAt:         timeToProto(q.SendAt),
		ExpiresAt:      timeToProto(q.ExpiresAt),
		CallbackUrl:    q.CallbackURL,
		Metadata:       q.Metadata,
		At:             timeToProto(q.At),
		Cost:           int64(q.Cost),
	}, nil
}

// requestFromProto is the way back. It fails where a number is none of the
// contract's, or a time is outside the years 1 to 9999.
func requestFromProto(p *weirpb.SendRequest) (*Request, *RequestError) {
	var ps requestProblems
	q := &Request{
		Tenant:         p.GetTenant(),
		Channel:        enumText(&ps, "/channel", Channels, int32(p.GetChannel())),
		To:             p.GetTo(),
		Class:          p.GetClass(),
		Template:       p.GetTemplate(),
		Vars:           textsFromProto(p.GetVars()),
		Subject:        p.GetSubject(),
		Body:           p.GetBody(),
		HTML:           p.GetHtml(),
		ReplyTo:        p.GetReplyTo(),
		Title:          p.GetTitle(),
		Data:           textsFromProto(p.GetData()),
		From:           p.GetFrom(),
		Priority:       enumText(&ps, "/priority", Priorities, int32(p.GetPriority())),
		Provider:       p.GetProvider(),
		IdempotencyKey: p.GetIdempotencyKey(),
		ID:             p.GetId(),
		SendAt:         timeFromProto(&ps, "/send_at", ReasonSendAtOutOfRange, p.GetSendAt()),
		ExpiresAt:      timeFromProto(&ps, "/expires_at", ReasonExpiresOutOfRange, p.GetExpiresAt()),
		CallbackURL:    p.GetCallbackUrl(),
		Metadata:       textsFromProto(p.GetMetadata()),
		At:             timeFromProto(&ps, "/at", ReasonAtOutOfRange, p.GetAt()),
		Cost:           int(min(max(p.GetCost(), math.MinInt32), math.MaxInt32)), // Validate refuses what is out of range
	}
	if a := p.GetAction(); a >= 0 && int(a) < len(Actions) {
		q.Action = Actions[a]
	} else {
		ps.add("/action", ReasonUnknownValue, "has a number that the contract does not know")
	}
	q.settle()
	if len(ps) > 0 {
		return nil, &RequestError{Problems: ps, Partial: q}
	}
	return q, nil
}

// RequestProto writes a request in protobuf, maps sorted: equal requests give
// equal bytes within one version of Weir. It fails as RequestToProto does, or
// where a text is not UTF-8.
func RequestProto(q *Request) ([]byte, error) {
	p, err := RequestToProto(q)
	if err != nil {
		return nil, err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode request as protobuf: %w", err)
	}
	return b, nil
}

func decodeRequestProto(value []byte) (*Request, *RequestError) {
	var p weirpb.SendRequest
	if err := proto.Unmarshal(value, &p); err != nil {
		// The library's own words may differ from run to run, and are no help.
		return nil, requestFault("", ReasonBadProtobuf, "is not a weir.v1.SendRequest in protobuf")
	}
	q, fault := requestFromProto(&p)
	if fault == nil {
		q.ignoredProto(p.ProtoReflect().GetUnknown())
	}
	return q, fault
}

// enumNumber returns the number of v in an enum whose 0 means absent and whose
// others follow the order of all.
func enumNumber[T ~string](all []T, v T) (int32, bool) {
	if v == "" {
		return 0, true
	}
	i := slices.Index(all, v)
	return int32(i + 1), i >= 0
}

func enumText[T ~string](ps *requestProblems, pointer string, all []T, n int32) T {
	switch {
	case n == 0:
		return ""
	case n > 0 && int(n) <= len(all):
		return all[n-1]
	}
	ps.add(pointer, ReasonUnknownValue, "has a number that the contract does not know")
	return ""
}

func timeToProto(m Millis) *timestamppb.Timestamp {
	if m == 0 {
		return nil
	}
	return timestamppb.New(m.Time())
}

func timeFromProto(ps *requestProblems, pointer, outOfRange string, ts *timestamppb.Timestamp) Millis {
	if ts == nil {
		return 0
	}
	if ts.CheckValid() != nil {
		ps.add(pointer, ReasonBadTime, "is no valid time")
		return 0
	}
	m := Millis(ts.AsTime().UnixMilli())
	if m == 0 {
		ps.add(pointer, outOfRange, "is before 2000")
	}
	return m
}

func textsFromProto(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
