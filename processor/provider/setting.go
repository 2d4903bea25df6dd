package provider

import (
	"fmt"
	"strconv"

	"github.com/weirhq/weir/schemas"
)

// Text reads a setting that is text, with what it takes from the environment or a
// file (Resolve); empty when it is absent. A number is read as it is written.
func Text(p schemas.Provider, name string, deps Deps) (string, error) {
	switch v := p.Settings[name].(type) {
	case nil:
		return "", nil
	case string:
		return Resolve(name, v, deps.Getenv)
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", fmt.Errorf("settings.%s must be text", name)
}

// Required is Text of a setting that must be there; such is an example of it.
func Required(p schemas.Provider, name, such string, deps Deps) (string, error) {
	v, err := Text(p, name, deps)
	if err == nil && v == "" {
		err = fmt.Errorf("settings.%s is missing: write such as %s", name, such)
	}
	return v, err
}

// Switch reads a setting that is on or off, true or false; otherwise is what its
// absence means.
func Switch(p schemas.Provider, name string, otherwise bool) (bool, error) {
	switch p.Settings[name] {
	case nil:
		return otherwise, nil
	case true, "on", "true":
		return true, nil
	case false, "off", "false":
		return false, nil
	}
	return false, fmt.Errorf("settings.%s must be on or off", name)
}
