package revise

import (
	"errors"
	"fmt"
	"slices"
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

// Without returns p without a resource that nothing refers to, and whether there was one.
// Its error is a schemas.PolicyErrors whose paths name who refers to it.
//
// A limit or a route may match a class that was never declared, since producers name
// classes: such a policy is valid. But a class that is removed while limits and routes
// match it leaves its messages to other rules than those that they were written for.
func Without(p *schemas.Policy, k schemas.ResourceKind, name string) (next *schemas.Policy, found bool, err error) {
	if next, found = p.Without(k, name); !found {
		return nil, false, nil
	}
	var errs schemas.PolicyErrors
	if err := Judge(next); err != nil {
		judged, ok := errors.AsType[schemas.PolicyErrors](err)
		if !ok {
			return nil, true, err
		}
		errs = judged
	}
	if k == schemas.ResourceClass && name != schemas.DefaultClass { // which is always there
		errs = append(errs, matching(next, name)...)
	}
	if len(errs) > 0 {
		return nil, true, errs
	}
	return next, true, nil
}

// matching are the limits and routes that match a class.
func matching(p *schemas.Policy, class string) (errs schemas.PolicyErrors) {
	look := func(k schemas.ResourceKind, name string, m *schemas.Match) {
		if slices.Contains(m.Class, class) {
			errs = append(errs, schemas.PolicyError{Path: string(k) + " " + name + ": match.class", Message: fmt.Sprintf("it matches the class %q: change it or remove it first", class)})
		}
	}
	for i := range p.Limits {
		look(schemas.ResourceLimit, p.Limits[i].Name, &p.Limits[i].Match)
	}
	for i := range p.Routes {
		look(schemas.ResourceRoute, p.Routes[i].Name, &p.Routes[i].Match)
	}
	return errs
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
