package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// absent is the value of an object that is not there, as a read has it. In a state each deletion has a number of its
// own, all below zero: the beginning's is this one.
const absent = int64(-1)

type kind int

const (
	look kind = iota
	refuse
	commit
	commitIf
	acknowledge
)

// step is what porcupine orders. A write is two: it takes effect at some instant between its call and its answer, and
// is acknowledged at its answer. Until then an old copy may be read, even after the new value was.
type step struct {
	kind  kind
	value int64
	over  condition
}

// condition is what a write may be written over: nil anything, 0 nothing, else the value that is there.
type condition *int64

// holds tells from the current value; what is not there is below zero.
func holds(over condition, current int64) bool {
	return over == nil || *over == current || *over == 0 && current < 0
}

// state is what may be read: the values since the newest acknowledged write, the current one last.
type state []int64

func register(isAtomic bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{absent} },
		Step: func(before, input, _ any) (bool, any) {
			values, step := before.(state), input.(step)
			switch step.kind {
			case look:
				return slices.ContainsFunc(values, func(value int64) bool {
					return value == step.value || value < 0 && step.value < 0
				}), values
			case refuse:
				return !holds(step.over, values[len(values)-1]), values
			case commit, commitIf:
				if !holds(step.over, values[len(values)-1]) {
					return step.kind == commitIf, values
				}
				if isAtomic {
					return true, state{step.value}
				}
				return true, append(slices.Clip(values), step.value)
			default:
				// A later write may have been acknowledged before: then this value is gone already.
				if at := lastIndex(values, step.value); at > 0 {
					return true, values[at:]
				}
				return true, values
			}
		},
		Equal: func(one, other any) bool { return slices.Equal(one.(state), other.(state)) },
		Hash: func(values any) uint64 {
			hash := uint64(14695981039346656037)
			for _, value := range values.(state) {
				hash = (hash ^ uint64(value)) * 1099511628211
			}
			return hash
		},
	}
}

func lastIndex(values state, value int64) int {
	for at := len(values) - 1; at >= 0; at-- {
		if values[at] == value {
			return at
		}
	}
	return -1
}

func isLegal(model string, history []Operation) bool {
	return porcupine.CheckOperations(register(model == "atomic"), steps(history))
}

// steps puts each acknowledgement right behind its answer, for which all times are doubled: porcupine's intervals are
// closed, so a read that starts in the same microsecond may still come before it.
func steps(history []Operation) []porcupine.Operation {
	var made []porcupine.Operation
	add := func(what step, call, end int64) {
		made = append(made, porcupine.Operation{Input: what, Call: call, Return: end})
	}
	for number, each := range history {
		value, call, end := absent, 2*each.StartUs, 2*each.EndUs
		if each.Value != nil {
			value = *each.Value
		}
		if each.Kind == "delete" {
			value = absent - 1 - int64(number)
		}
		switch {
		case each.Kind == "read":
			add(step{look, value, nil}, call, end)
		case each.Kind == "refused":
			add(step{refuse, value, each.OnlyOver}, call, end)
		case !each.IsKnown: // it may take effect at any time from its call on, or never: then after everything else
			add(step{commitIf, value, each.OnlyOver}, call, math.MaxInt64)
		default:
			add(step{commit, value, each.OnlyOver}, call, end)
			add(step{acknowledge, value, nil}, end+1, end+1)
		}
	}
	return made
}

// shorten returns a violating history from which no operation can be left out.
func shorten(model string, history []Operation) []Operation {
	left := slices.SortedFunc(slices.Values(history), func(one, other Operation) int {
		return cmp.Compare(one.StartUs, other.StartUs)
	})
	for size := len(left) / 2; size > 0; {
		before := len(left)
		for at := 0; at < len(left); {
			fewer := without(left, at, min(at+size, len(left)))
			if len(fewer) < len(left) && !isLegal(model, fewer) {
				left = fewer
			} else {
				at += size
			}
		}
		if size > 1 {
			size /= 2
		} else if len(left) == before {
			break
		}
	}
	return left
}

// without leaves out operations, and of writes that are left out what saw them, or may have: reads, refusals, and the
// conditions of other writes.
func without(history []Operation, from, to int) []Operation {
	gone, deletedUs, writtenUs := map[int64]bool{}, int64(math.MaxInt64), int64(math.MaxInt64)
	for _, each := range history[from:to] {
		switch each.Kind {
		case "write":
			gone[*each.Value] = true
			writtenUs = min(writtenUs, each.StartUs)
		case "delete":
			deletedUs = min(deletedUs, each.StartUs)
			writtenUs = min(writtenUs, each.StartUs)
		}
	}
	var left []Operation
	for at, each := range history {
		hasSeen := each.Value != nil && gone[*each.Value] || each.Value == nil && each.EndUs >= deletedUs
		isRead, isRefused := each.Kind == "read", each.Kind == "refused"
		if at >= from && at < to || isRead && hasSeen || isRefused && each.EndUs >= writtenUs {
			continue
		}
		if each.OnlyOver != nil && !isRefused && (gone[*each.OnlyOver] || *each.OnlyOver == 0 && deletedUs < math.MaxInt64) {
			each.OnlyOver = nil
		}
		left = append(left, each)
	}
	return left
}
