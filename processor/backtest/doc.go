// Package backtest answers, from recorded traffic, what another policy would
// have refused.
package backtest
