//go:build soak && linux

package main

import "testing"

func (s *soak) network(t *testing.T) {}
