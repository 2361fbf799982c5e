package generate

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"math/rand/v2"

	"parley/schemas"
	"parley/schemas/random"
)

// imageSize is a size of the images that users send.
type imageSize struct{ width, height int }

// maxSide bounds the sides of an image: no server takes larger ones.
const maxSide = 8192

// images reads the sizes of images and the share of user messages that carry one of each.
func (s *Spec) images() ([]imageSize, []share, error) {
	if s.Images == "" {
		return nil, nil, nil
	}
	shares, err := parseShares(s.Images)
	if err != nil {
		return nil, nil, err
	}
	var sizes []imageSize
	sum := 0.0
	for _, sh := range shares {
		var z imageSize
		var rest string
		if n, _ := fmt.Sscanf(sh.name+" ", "%dx%d%s", &z.width, &z.height, &rest); n != 2 || min(z.width, z.height) < 1 || max(z.width, z.height) > maxSide {
			return nil, nil, fmt.Errorf("%q is not a size: give WIDTHxHEIGHT, at most %dx%d, as in 1024x768, or 1024x768:0.3 for three in ten user messages", sh.name, maxSide, maxSide)
		}
		sizes, sum = append(sizes, z), sum+sh.part
	}
	if sum > 1.000001 {
		return nil, nil, fmt.Errorf("%q: the shares of user messages add up to %.3g, which is more than all of them", s.Images, sum)
	}
	return sizes, shares, nil
}

// contentPart is a part of a message in the form of OpenAI's chat completions.
type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// illustrate gives a user's message an image where one is drawn. What a server makes of it is not in the counts of
// tokens, which are of text.
func (b *builder) illustrate(m *schemas.Message, number uint64, turn int) error {
	if len(b.sizes) == 0 {
		return nil
	}
	r := random.Stream(b.seed, "image", number, uint64(turn))
	i := pick(b.sizeShares, r.Float64())
	if i < 0 {
		return nil
	}
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(syntheticPNG(r, b.sizes[i]))
	parts, err := json.Marshal([]contentPart{{Type: "text", Text: *m.Content}, {Type: "image_url", ImageURL: &imageURL{url}}})
	if err != nil {
		return err
	}
	text := string(parts)
	m.Parts = &text
	return nil
}

// syntheticPNG makes an image of coloured tiles: each of 16 colours of a palette, four bits a pixel, not compressed.
// It is written here and not by image/png, whose compression may change with the version of Go, so that the same
// seed gives the same bytes. No two images are the same, so that no cache of images has one already.
func syntheticPNG(r *rand.Rand, z imageSize) []byte {
	out := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
		from := len(out)
		out = append(append(out, kind...), data...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[from:]))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(z.width)), uint32(z.height))
	chunk("IHDR", append(head, 4, 3, 0, 0, 0)) // four bits, palette
	palette := make([]byte, 3*16)
	for i := range palette {
		palette[i] = byte(r.Uint32())
	}
	chunk("PLTE", palette)

	const tile = 8 // pixels, an even number
	row := make([]byte, 1+(z.width+1)/2)
	pixels := make([]byte, 0, len(row)*z.height)
	for y := range z.height {
		if y%tile == 0 {
			for x := 1; x < len(row); x += tile / 2 {
				colour := byte(r.IntN(16)) * 0x11
				for k := x; k < min(x+tile/2, len(row)); k++ {
					row[k] = colour
				}
			}
		}
		pixels = append(pixels, row...)
	}
	sum := adler32.Checksum(pixels)
	data := []byte{0x78, 0x01} // zlib, without compression
	for len(pixels) > 0 {
		n := min(len(pixels), 0xffff)
		last := byte(0)
		if n == len(pixels) {
			last = 1
		}
		data = append(data, last, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		data = append(data, pixels[:n]...)
		pixels = pixels[n:]
	}
	chunk("IDAT", binary.BigEndian.AppendUint32(data, sum))
	chunk("IEND", nil)
	return out
}
