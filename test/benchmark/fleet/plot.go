// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

const (
	plotWidth, plotHeight       = 860, 480
	plotLeft, plotRight         = 60, 240
	plotTop, plotBottom         = 40, 50
	shortestTime                = 0.1 // seconds, where the axis begins
	plotInnerWidth              = plotWidth - plotLeft - plotRight
	plotInnerHeight             = plotHeight - plotTop - plotBottom
	legendLine, legendLeft      = 18, plotWidth - plotRight + 16
	axisColour, gridColour      = "#444", "#ddd"
	dashedWithDead, dotUpstream = "6 4", "2 3"
)

// colours can be told apart by people who see no red or no green (Okabe and Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// curve is the share of the healthy clusters that were imported after a time.
type curve struct {
	label, colour, dash string
	result              result
}

// drawPlot returns an SVG with a curve for each run, over the time on a logarithmic axis.
func drawPlot(ours, peers []result) string {
	var curves []curve
	bySize := map[int]string{}
	for _, res := range ours {
		if bySize[res.size] == "" {
			bySize[res.size] = colours[len(bySize)%len(colours)]
		}
		curves = append(curves, newCurve(res, "", bySize[res.size]))
	}
	for _, res := range peers {
		curves = append(curves, newCurve(res, "upstream, ", bySize[res.size]))
	}
	longest := 1.0
	for _, c := range curves {
		for _, duration := range c.result.durations {
			longest = max(longest, duration)
		}
	}
	decades := math.Ceil(math.Log10(longest / shortestTime))
	x := func(seconds float64) float64 {
		return plotLeft + plotInnerWidth*math.Log10(max(seconds, shortestTime)/shortestTime)/decades
	}
	y := func(share float64) float64 { return plotTop + plotInnerHeight*(1-share) }

	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	text(&svg, plotLeft, plotTop-16, "start", "Healthy clusters imported, by the time since each was created")
	for power := range int(decades) + 1 {
		seconds := shortestTime * math.Pow10(power)
		line(&svg, x(seconds), y(0), x(seconds), y(1))
		text(&svg, x(seconds), y(0)+18, "middle", fmt.Sprintf("%g s", seconds))
	}
	for quarter := range 5 {
		share := float64(quarter) / 4
		line(&svg, x(shortestTime), y(share), x(shortestTime*math.Pow10(int(decades))), y(share))
		text(&svg, plotLeft-8, y(share)+4, "end", fmt.Sprintf("%.0f %%", share*100))
	}
	for i, c := range curves {
		c.draw(&svg, x, y)
		top := float64(plotTop + (i+1)*legendLine)
		fmt.Fprintf(&svg, `<path d="M%d %g h24" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", legendLeft, top-4, c.colour, c.dash)
		text(&svg, legendLeft+30, top, "start", c.label)
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

func newCurve(res result, side, colour string) curve {
	c := curve{label: fmt.Sprintf("%s%d", side, res.size), colour: colour, dash: "none", result: res}
	if res.dead > 0 {
		c.label += fmt.Sprintf(", %d %% dead beside", res.dead)
		c.dash = dashedWithDead
	}
	if side != "" {
		c.dash = dotUpstream
	}
	return c
}

func (c curve) draw(svg *strings.Builder, x, y func(float64) float64) {
	if len(c.result.durations) == 0 {
		return
	}
	fmt.Fprintf(svg, `<path fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s" d="M%.1f %.1f`,
		c.colour, c.dash, x(c.result.durations[0]), y(0))
	for i, duration := range c.result.durations {
		fmt.Fprintf(svg, " L%.1f %.1f", x(duration), y(float64(i+1)/float64(c.result.size)))
	}
	svg.WriteString(`"/>` + "\n")
}

func line(svg *strings.Builder, x1, y1, x2, y2 float64) {
	fmt.Fprintf(svg, `<path d="M%.1f %.1f L%.1f %.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, gridColour)
}

func text(svg *strings.Builder, x, y float64, anchor, content string) {
	fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, axisColour, html.EscapeString(content))
}
