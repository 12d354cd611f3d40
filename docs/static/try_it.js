// The page try-it: sliders over the precomputed numbers of try_it_numbers.js. It sends nothing and interpolates nothing.
(() => {
  "use strict";
  const numbers = window.hockeystickNumbers;
  const root = document.getElementById("try-it");
  const grouped = n => n.toLocaleString("en-US");
  const power = d => `1e-${Math.round(-Math.log10(d))}`;
  const float = x => Number.isInteger(x) ? `${x}.0` : String(x);
  const underscored = n => grouped(n).replaceAll(",", "_");
  const percent = (x, round) => `${round(x * 1000) / 10} %`;
  const { training, releases, records, deltas, parts } = numbers;
  const noise = values => ({ name: "noise multiplier", values, start: 1, text: x => `${x} × clip` });
  const delta = { name: "δ", values: deltas, start: 1e-5, text: power };
  const rate = { name: "batch, on average", values: training.rate, start: 0.01 };
  rate.text = (x, at) => `${grouped(Math.round(x * records[at.records]))} records (${Number((100 * x).toFixed(1))} %)`;
  const epochs = { name: "epochs", values: training.epochs, start: 10 };
  epochs.text = (x, at) => {
    const steps = training.steps[at.rate * epochs.values.length + at.epochs];
    return `${x} (${grouped(steps)} steps)`;
  };

  // Each mechanism: its sliders, the row of the numbers, and what reproduces them.
  const mechanisms = {
    training: {
      title: "DP-SGD, Poisson samples",
      sliders: {
        noise: noise(training.noise),
        records: { name: "records", values: records, start: 10000, text: grouped },
        rate, epochs, delta,
      },
      row: at => training.rows[(at.noise * rate.values.length + at.rate) * epochs.values.length + at.epochs],
      python: v => `import hockeystick as hs\n\n`
        + `run = hs.DPSGD(records=${underscored(v.records)}, batch=${Math.round(v.rate * v.records)}, epochs=${v.epochs})\n`
        + `print(f"{run.epsilon(${float(v.noise)}, ${power(v.delta)}):.5g}")`,
      shell: v => `hockeystick account dp-sgd --records ${v.records} --batch ${Math.round(v.rate * v.records)} `
        + `--epochs ${v.epochs} --noise-multiplier ${v.noise} --delta ${power(v.delta)}`,
    },
    releases: {
      title: "Gaussian noise",
      sliders: {
        noise: { ...noise(releases.noise), start: 10, text: x => `${x} × sensitivity` },
        count: { name: "releases", values: releases.count, start: 10, text: grouped },
        delta,
      },
      row: at => releases.rows[at.noise * releases.count.length + at.count],
      python: v => `import hockeystick as hs\n\n`
        + `event = hs.compose((hs.events.Gaussian(${float(v.noise)}), ${v.count}))\n`
        + `print(f"{hs.epsilon(event, ${power(v.delta)}):.5g}")`,
      shell: v => `python -c "import hockeystick as hs; event = hs.compose((hs.events.Gaussian(${float(v.noise)}), `
        + `${v.count})); print(f'{hs.epsilon(event, ${power(v.delta)}):.5g}')"`,
    },
  };

  const make = (name, inside = {}, ...children) => {
    const made = document.createElement(name);
    Object.assign(made, inside);
    made.append(...children);
    return made;
  };
  const drawn = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // The least rate of misses at a rate of false alarms: one line for each (ε, δ) of a row, in both directions.
  const points = row => [
    [0, row[0]], ...deltas.map((d, i) => [row[1 + i], d]),
    ...parts.map((part, i) => [row[1 + deltas.length + i], part * row[0]]),
  ];
  const misses = (row, alarms) => Math.max(0, ...points(row).flatMap(([e, d]) =>
    [1 - d - Math.exp(e) * alarms, Math.exp(-e) * (1 - d - alarms)]));

  const X = 46, Y = 14, SIDE = 270;
  const place = (x, y) => `${(X + SIDE * x).toFixed(1)},${(Y + SIDE * (1 - y)).toFixed(1)}`;
  const picture = row => {
    const rates = new Set();
    for (let i = 0; i <= 200; i++) { rates.add(i / 200); rates.add(10 ** (-4 * i / 200)); }
    const curve = [...rates].sort((a, b) => a - b).map(x => place(x, misses(row, x)));
    const text = (x, y, said, anchor = "middle") => drawn("text", { x, y, "text-anchor": anchor }, said);
    const ticks = [0, 0.5, 1].flatMap(t => [
      text(X + SIDE * t, Y + SIDE + 17, String(t)), text(X - 6, Y + SIDE * (1 - t) + 4, String(t), "end"),
      drawn("path", { class: "axis", d: `M${place(t, 0)} v4 M${place(0, t)} h-4` }),
    ]);
    const side = drawn("g", { transform: `translate(12 ${Y + SIDE / 2}) rotate(-90)` }, text(0, 0, "misses, at least"));
    return drawn("svg", { viewBox: `0 0 ${X + SIDE + 14} ${Y + SIDE + 40}`, role: "img", "aria-label": told(row) },
      drawn("path", { class: "excluded", d: `M${place(0, 0)} L${curve.join(" ")} Z` }),
      drawn("path", { class: "axis", d: `M${place(0, 1)} L${place(0, 0)} L${place(1, 0)}` }),
      drawn("path", { class: "guess", d: `M${place(0, 1)} L${place(1, 0)}` }),
      drawn("path", { class: "curve", d: `M${curve.join(" ")}` }), ...ticks, side,
      text(X + SIDE / 2, Y + SIDE + 35, "false alarms of an attack"),
      text(X + SIDE * 0.98, Y + 16, "dashed: a random guess", "end"));
  };
  const told = row => "Trade-off curve: an attack with "
    + [0.01, 0.1].map(x => `${percent(x, Math.round)} of false alarms misses at least ${percent(misses(row, x), Math.floor)}`)
      .join(", one with ") + " of the records it looks for.";

  const result = make("p", { className: "result" });
  result.setAttribute("role", "status");
  const controls = make("div", { className: "controls" });
  const figure = make("figure");
  const python = make("code"), shell = make("code");
  const chosen = Object.fromEntries(Object.entries(mechanisms).map(([kind, { sliders }]) =>
    [kind, Object.fromEntries(Object.entries(sliders).map(([key, one]) => [key, one.values.indexOf(one.start)]))]));
  let kind = "training";

  const show = () => {
    const { sliders, row, ...code } = mechanisms[kind], at = chosen[kind];
    const values = Object.fromEntries(Object.entries(sliders).map(([key, one]) => [key, one.values[at[key]]]));
    for (const [key, one] of Object.entries(sliders)) {
      const said = one.text(values[key], at);
      document.getElementById(`try-it-${key}`).setAttribute("aria-valuetext", said);
      document.getElementById(`try-it-${key}-value`).textContent = said;
    }
    const found = row(at);
    result.textContent = `ε ≤ ${found[1 + at.delta]} at δ = ${power(values.delta)}`;
    figure.replaceChildren(picture(found), make("figcaption", {}, told(found)));
    python.textContent = code.python(values);
    shell.textContent = code.shell(values);
  };
  const build = () => {
    controls.replaceChildren(...Object.entries(mechanisms[kind].sliders).map(([key, one]) => {
      const id = `try-it-${key}`;
      const slider = make("input", { type: "range", id, min: 0, max: one.values.length - 1, step: 1 });
      slider.value = chosen[kind][key];
      slider.addEventListener("input", () => { chosen[kind][key] = Number(slider.value); show(); });
      const value = make("output", { id: `${id}-value` });
      value.htmlFor.add(id);
      value.setAttribute("aria-live", "off");  // the slider says it
      return make("div", {}, make("label", { htmlFor: id }, one.name), value, slider);
    }));
    show();
  };
  const choices = make("fieldset", {}, make("legend", {}, "Mechanism"), ...Object.keys(mechanisms).map(one => {
    const radio = make("input", { type: "radio", name: "try-it-mechanism", value: one, checked: one === kind });
    radio.addEventListener("change", () => { kind = one; build(); });
    return make("label", {}, radio, ` ${mechanisms[one].title}`);
  }));
  root.replaceChildren(result, make("div", { className: "columns" }, make("div", {}, choices, controls), figure),
    make("p", {}, "The same number in Python, and in a shell:"), make("pre", {}, python), make("pre", {}, shell));
  build();
})();
