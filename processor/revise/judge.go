package revise

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Judge refuses a policy that is not valid, or that no partition could decide
// on. Its error is a schemas.PolicyErrors whose paths name resources.
func Judge(p *schemas.Policy) error {
	err := p.Validate()
	if err == nil {
		err = Decidable(p)
	}
	if errs, ok := errors.AsType[schemas.PolicyErrors](err); ok {
		return errs.Named(p)
	}
	return err
}

// Decidable refuses a valid policy that no partition could decide on: it must
// not come into force anywhere. Its error is a schemas.PolicyErrors, with paths
// such as limits[0].exempt[1].
func Decidable(p *schemas.Policy) error {
	var errs schemas.PolicyErrors
	fail := func(path string, err error) {
		if err != nil {
			errs = append(errs, schemas.PolicyError{Path: path, Message: err.Error()})
		}
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		path := fmt.Sprintf("limits[%d]", i)
		fail(path, alone(l))
		for j, to := range l.Exempt {
			fail(fmt.Sprintf("%s.exempt[%d]", path, j), canonical(to))
		}
		for j := range l.Overrides {
			fail(fmt.Sprintf("%s.overrides[%d].to", path, j), canonical(l.Overrides[j].To))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	// What limits are to one another.
	if _, err := limit.Compile(p, nil); err != nil {
		return schemas.PolicyErrors{{Path: "limits", Message: err.Error()}}
	}
	return nil
}

// alone compiles one limit, and leaves its name out of what is wrong: the path
// has it.
func alone(l *schemas.Limit) error {
	_, err := limit.Compile(&schemas.Policy{Limits: []schemas.Limit{*l}}, nil)
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "limit "+l.Name+": "))
}

// canonical refuses a recipient that is written otherwise than its key: limits
// compare keys, so it would never be met. The letter case of an address makes no
// difference to them.
func canonical(to string) error {
	channel := schemas.ChannelPush
	switch {
	case strings.HasPrefix(to, "+"):
		channel = schemas.ChannelSMS
	case strings.Contains(to, "://"):
		channel = schemas.ChannelWebhook
	case strings.Contains(to, "@"):
		channel = schemas.ChannelEmail
	}
	r, err := recipient.Canonical(channel, to, "")
	switch {
	case err != nil:
		return fmt.Errorf("%q: %w", to, err)
	case r.Key != to && r.Spelled != to:
		return fmt.Errorf("%q is %q to Weir: write it so", to, r.Key)
	}
	return nil
}
