package generate

import (
	"context"
	"errors"
)

func (w *writing) importFile(context.Context) error {
	return errors.New("imports are not available yet")
}
