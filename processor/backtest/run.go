package backtest

import (
	"context"
	"errors"

	"github.com/weirhq/weir/processor/limit"
)

func run(context.Context, Config, *limit.Rules) (*Result, error) {
	return nil, errors.New("backtest: not built yet")
}
