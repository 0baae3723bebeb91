"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const escape = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const config = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"], displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false };

  const axis = (title, more) => Object.assign({
    title: { text: escape(title), font: { size: 13, color: color("soft") }, standoff: 8 }, automargin: true,
    gridcolor: color("grid"), linecolor: color("line"), zeroline: false, tickfont: { color: color("soft"), size: 12 },
  }, more);
  const layout = (x, y, more) => Object.assign({
    xaxis: x, yaxis: y, margin: { l: 48, r: 12, t: 12, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif", color: color("ink") },
    hoverlabel: { bgcolor: color("card"), bordercolor: color("line"), font: { color: color("ink"), size: 13 }, align: "left" },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12, color: color("soft") } }, dragmode: matchMedia("(hover: hover)").matches ? "zoom" : false,
  }, more);

  function band(x, low, high, fill, name) {
    return [
      { x, y: low, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false },
      { x, y: high, mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: fill, hoverinfo: "skip", name },
    ];
  }

  const spread = (mean, low, high, name, thickness) => ({
    type: "data", symmetric: false, array: high.map((y, i) => y - mean[i]), arrayminus: mean.map((y, i) => y - low[i]), color: color(name), thickness, width: 0,
  });

  function drawDose() {
    const place = byId("dose");
    if (!place) return;
    const curve = data.curves[Number(byId("factor").value)];
    byId("dose-at").textContent = curve.at ? "with " + curve.at : "";
    const traces = [
      ...band(curve.x, curve.low, curve.high, color("wash-2"), data.confidence + " of new trials"),
      ...band(curve.x, curve.mean_low, curve.mean_high, color("wash-1"), data.confidence + " interval of the mean"),
      { x: curve.x, y: curve.mean, mode: "lines", name: "law", line: { color: color("mean"), width: 2.5 }, hovertemplate: "%{x:.4g} → %{y:.4g}<extra>law</extra>" },
      { x: curve.trial_x, y: curve.trial_y, mode: "markers", name: "trials", marker: { size: 8, color: color("point"), opacity: .75, line: { width: 1, color: color("card") } },
        text: curve.trial.map((trial, i) => "trial " + trial + "<br>measured " + escape(curve.observed[i])), hovertemplate: "%{text}<br>at %{x:.4g}<extra></extra>" },
    ];
    const words = curve.words.length > 0;
    if (words) {
      traces.splice(0, 5, 
        { x: curve.x, y: curve.mean, mode: "markers", name: data.confidence + " of new trials", hoverinfo: "skip", marker: { size: 12, symbol: "square", color: color("wash-1") }, error_y: spread(curve.mean, curve.low, curve.high, "wash-1", 18) },
        { x: curve.x, y: curve.mean, mode: "markers", name: "law, " + data.confidence + " interval of the mean", marker: { size: 11, symbol: "diamond", color: color("mean") }, hovertemplate: "%{y:.4g}<extra>law</extra>", error_y: spread(curve.mean, curve.mean_low, curve.mean_high, "mean", 3) });
    }
    const scale = words ? { tickvals: curve.words.map((_, i) => i), ticktext: curve.words.map(escape), range: [-.6, curve.words.length - .4], showgrid: false } : curve.logarithmic ? { type: "log", dtick: 1, minor: { showgrid: true, gridcolor: color("grid") } } : {};
    Plotly.react(place, traces, layout(axis(curve.x_title, scale), axis(curve.y_title, { rangemode: "tozero" })), config);
  }

  const narrow = () => innerWidth < 600;
  const wrapped = (text, width) => {
    const lines = [""];
    for (const word of String(text).split(" ")) {
      const last = lines[lines.length - 1];
      if (last && last.length + word.length >= width) lines.push(word); else lines[lines.length - 1] = last ? last + " " + word : word;
    }
    return lines.map(escape).join("<br>");
  };
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

  function drawNarrowing() {
    const place = byId("narrowing");
    if (!place || !data.narrowing) return;
    const went = data.narrowing;
    const each = went.lines.length ? went.lines : [{ name: "half width", y: went.worst }];
    const traces = each.map((line, i) => ({
      x: went.x, y: line.y, mode: went.x.length > 40 ? "lines" : "lines+markers", name: escape(line.name),
      line: { color: color(each.length > 1 ? "point" : "mean"), width: 2, dash: dashes[i] }, marker: { size: 6, color: color(each.length > 1 ? "point" : "mean") },
      hovertemplate: "± %{y:.2g} % after %{x} trials<extra>" + escape(line.name) + "</extra>",
    }));
    const all = each.flatMap((line) => line.y).filter((y) => y !== null && y > 0);
    const ends = [Math.min(...all, went.asked === null ? Infinity : went.asked), Math.max(...all, went.asked || 0)].map(Math.log10);
    const room = Math.max(.06, .06 * (ends[1] - ends[0]));
    const shapes = [], annotations = [];
    if (went.asked !== null) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: went.asked, y1: went.asked, line: { color: color("good"), width: 1.5, dash: "dash" } });
      annotations.push({ xref: "paper", x: 0, xanchor: "left", y: Math.log10(went.asked), yanchor: "bottom", text: "asked: ± " + Number(went.asked.toPrecision(3)) + " %", showarrow: false, font: { size: 12, color: color("good") } });
    }
    const powers = [];
    for (let power = Math.floor(ends[0]); power <= Math.ceil(ends[1]); power++) for (const step of ends[1] - ends[0] < 1 ? [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8] : ends[1] - ends[0] < 2.5 ? [1, 2, 5] : [1]) powers.push(step * 10 ** power);
    const ticks = { tickvals: powers, ticktext: powers.map((tick) => String(Number(tick.toPrecision(2)))) };
    Plotly.react(place, traces, layout(
      axis("valid trials", went.x.length > 8 ? {} : { tickvals: went.x }),
      axis("half width (%)", { type: "log", range: [ends[0] - room, ends[1] + 2 * room], ...ticks }),
      { shapes, annotations, showlegend: each.length > 1 && !narrow() }), config);
  }

  function drawForest() {
    const place = byId("forest");
    if (!place || !data.forest) return;
    const all = data.forest;
    const rows = all.names.map((_, i) => i);
    place.style.height = Math.max(180, 90 + 46 * rows.length) + "px";
    Plotly.react(place, [{
      x: all.value, y: rows, mode: "markers", marker: { size: 10, color: color("mean") }, cliponaxis: false,
      error_x: { type: "data", symmetric: false, array: all.value.map((v, i) => all.high[i] - v), arrayminus: all.value.map((v, i) => v - all.low[i]), color: color("mean"), thickness: 2, width: 5 },
      text: all.names.map(escape), hovertemplate: "%{text}<br>%{x:.4g}<extra></extra>",
    }], layout(axis(all.title, { rangemode: all.from_zero ? "tozero" : "normal" }),
      axis("", { tickvals: rows, ticktext: all.names.map((name) => wrapped(name, narrow() ? 16 : 26)), range: [rows.length - .4, -.6], showgrid: false }), { showlegend: false }), config);
  }

  const verdicts = { held: ["held", "circle"], missed: ["missed", "x"], disturbed: ["disturbed", "diamond-open"] };
  function drawCheck() {
    const place = byId("check");
    if (!place) return;
    const check = data.check;
    if (!check.marks.length) { place.hidden = true; return; }
    const row = new Map(check.cells.map((cell, i) => [cell, i]));
    const seen = new Map();
    const traces = Object.keys(verdicts).filter((v) => check.marks.some((m) => m.verdict === v)).map((verdict) => {
      const marks = check.marks.filter((m) => m.verdict === verdict);
      return {
        mode: "markers", name: verdict, x: marks.map((m) => m.off),
        y: marks.map((m) => { const n = seen.get(m.cell) || 0; seen.set(m.cell, n + 1); return row.get(m.cell) + ((n * 0.618) % 1 - .5) * .5; }),
        marker: { symbol: verdicts[verdict][1], size: 9, color: color(verdicts[verdict][0]), opacity: .85, line: { width: verdict === "held" ? 0 : 2, color: color(verdicts[verdict][0]) } },
        text: marks.map((m) => "trial " + m.trial + ": " + escape(m.cell) + "<br>achieved " + escape(m.achieved) + ", known to ± " + escape(m.known) + "<br>bound for " + escape(m.bound)),
        hovertemplate: "%{text}<br>%{x:+.2f} %<extra>" + verdict + "</extra>",
      };
    });
    const shapes = [{ type: "line", x0: 0, x1: 0, yref: "paper", y0: 0, y1: 1, line: { color: color("faint"), width: 1 }, layer: "below" }];
    if (check.tolerance !== null) shapes.push({ type: "rect", x0: -check.tolerance, x1: check.tolerance, yref: "paper", y0: 0, y1: 1, fillcolor: color("wash-2"), line: { width: 0 }, layer: "below" });
    const most = Math.max(check.tolerance || 0, ...check.marks.map((m) => Math.abs(m.off))) * 1.12 || 1;
    place.style.height = Math.max(240, 110 + 44 * check.cells.length) + "px";
    const rows = axis("", { tickvals: check.cells.map((_, i) => i), ticktext: check.cells.map((cell) => (innerWidth < 600 ? escape(cell).replace(" ", "<br>") : escape(cell))), range: [check.cells.length - .4, -.6], showgrid: false });
    Plotly.react(place, traces, layout(axis("achieved against requested (%)", { range: [-most, most] }), rows, { shapes, showlegend: true }), config);
  }

  function drawFit() {
    if (!data.fits.length) return;
    const fit = data.fits[byId("law") ? Number(byId("law").value) : 0];
    const ordered = byId("against").value === "trial";
    const text = fit.trial.map((trial, i) => "trial " + trial + "<br>" + escape(fit.levels[i]));
    const ends = [Math.min(...fit.observed, ...fit.predicted), Math.max(...fit.observed, ...fit.predicted)];
    Plotly.react(byId("observed"), [
      { x: ends, y: ends, mode: "lines", line: { color: color("faint"), width: 1.5, dash: "dash" }, hoverinfo: "skip", name: "as fitted" },
      { x: fit.predicted, y: fit.observed, mode: "markers", name: "trials", text, hovertemplate: "%{text}<br>fitted %{x:.4g}, measured %{y:.4g}<extra></extra>",
        error_x: { type: "data", symmetric: false, array: fit.above, arrayminus: fit.below, color: color("mean"), thickness: 1, width: 0 }, marker: { size: 8, color: color("mean"), opacity: .85 } },
    ], layout(axis(fit.x_title), axis(fit.y_title), { showlegend: false }), config);
    const line = (at, dash) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: at, y1: at, line: { color: color("faint"), width: 1, dash }, layer: "below" });
    Plotly.react(byId("residuals"), [
      { x: ordered ? fit.trial : fit.predicted, y: fit.residual, mode: "markers", text, hovertemplate: "%{text}<br>residual %{y:.3g}<extra></extra>", marker: { size: 8, color: color("mean"), opacity: .85 } },
    ], layout(axis(ordered ? "trial" : fit.x_title), axis(fit.residual_title), { showlegend: false, shapes: [line(0, "solid"), line(2 * fit.sigma, "dot"), line(-2 * fit.sigma, "dot")] }), config);
  }

  function draw() { drawNarrowing(); drawForest(); drawDose(); drawCheck(); drawFit(); }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  function setTheme(theme) {
    root.dataset.theme = theme;
    byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", "Switch to " + (theme === "dark" ? "light" : "dark") + " colours");
    byId("theme").setAttribute("aria-pressed", String(theme === "dark"));
    draw();
  }
  const preferred = () => chosen || (dark.matches ? "dark" : "light");
  byId("theme").addEventListener("click", () => { chosen = preferred() === "dark" ? "light" : "dark"; setTheme(chosen); });
  dark.addEventListener("change", () => setTheme(preferred()));
  addEventListener("beforeprint", () => setTheme("light"));
  addEventListener("afterprint", () => setTheme(preferred()));

  const table = byId("trials");
  if (table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const number = (text) => (text === "inf" ? Infinity : text === "" || text === "nan" ? NaN : Number(text));
    const compare = (a, b) => {
      const [x, y] = [number(a), number(b)];
      if (!Number.isNaN(x) && !Number.isNaN(y)) return x === y ? 0 : x - y;
      return a === b ? 0 : a === "" || a === "nan" ? 1 : b === "" || b === "nan" ? -1 : a.localeCompare(b);
    };
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (line) => (line.cells[column] && line.cells[column].dataset.sort) || "";
      const lines = [...body.rows].sort((a, b) => compare(key(a), key(b)) * (down ? -1 : 1));
      body.append(...lines);
    }));
    const filter = byId("state");
    filter.addEventListener("change", () => {
      let shown = 0;
      for (const line of body.rows) {
        line.hidden = filter.value !== "" && line.dataset.state !== filter.value;
        shown += line.hidden ? 0 : 1;
      }
      byId("shown").textContent = filter.value === "" ? "" : shown + " shown";
    });
  }
  if (byId("factor")) byId("factor").addEventListener("change", drawDose);
  for (const chooser of ["law", "against"]) if (byId(chooser)) byId(chooser).addEventListener("change", drawFit);
  setTheme(preferred());
})();
