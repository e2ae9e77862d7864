// The graph: chains, and a line for each pair of chains with workers between them. If there
// are many chains, the lines of only one chain are drawn, because all would be a tangle.

const canvas = svg('svg', {
  role: 'listbox',
  'aria-label': 'Chains and the lines between them',
  'aria-describedby': 'keys',
});
const lines = svg('g', { role: 'group', 'aria-label': 'Lines' });
const counts = svg('g', { 'aria-hidden': 'true' });
const spots = svg('g', { role: 'group', 'aria-label': 'Chains' });
canvas.append(lines, counts, spots);

// The maximum number of chains for which all lines are drawn.
const MAX_CHAINS = 12;

// Up to this number of lines, there is room for a count of workers at each line.
const MAX_COUNTS = 8;

// The minimum radius of a chain with a problem.
const MIN_MARKED = 6.5;

// The position of the keyboard: a chain, and the other chain if it is on a line.
let place = { chain: '', other: '' };

// Returns the chain whose lines are drawn, if not all are: the chosen one, or the one with
// the most blocked workers.
function focusOf(model, view) {
  if (model.chains.length <= MAX_CHAINS) {
    return undefined;
  }
  const rank = (one, other) => other.blocked - one.blocked || other.workers - one.workers;
  return model.chainOf.get(view.chain) ?? [...model.chains].sort(rank)[0];
}

function drawGraph(model, view) {
  byId('graph').hidden = model.chains.length === 0;
  byId('no-chains').hidden = model.chains.length > 0;
  setText(
    byId('no-chains'),
    model.isKnown ? 'The relayer has no chains.' : 'The chains are not known.',
  );
  const focus = focusOf(model, view);
  drawFocus(model, view, focus);
  // A small screen shows the list instead.
  if (byId('graph').clientWidth === 0) {
    return;
  }
  const isDrawn = ({ a, b }) => focus === undefined || a === focus.id || b === focus.id;
  // Lines with a problem are above the others.
  const pairs = model.pairs.filter(isDrawn).sort((one, other) => one.isDown - other.isDown);
  const width = Math.max(280, Math.floor(byId('graph').clientWidth));
  const layout = layOut(
    model.chains.map((chain) => chain.id),
    width,
  );
  set(canvas, { width, height: layout.height, viewBox: `0 0 ${width} ${layout.height}` });
  canvas.classList.toggle('some', model.chainOf.has(view.chain));
  canvas.classList.toggle('many', pairs.length > 60);
  canvas.classList.toggle('unknown', !model.isKnown);
  place = placeIn(model, view, focus);
  const most = Math.max(1, ...model.chains.map((chain) => chain.workers));
  const widest = Math.max(1, ...pairs.map((pair) => pair.channels));
  const chosen = view.other === '' ? '' : keyOf(view.chain, view.other);
  const isOn = (pair) =>
    chosen === '' ? pair.a === view.chain || pair.b === view.chain : pair.key === chosen;
  keep(
    lines,
    pairs,
    (pair) => pair.key,
    makeLine,
    (line, pair) => {
      const { path } = bend(layout, layout.chains.get(pair.a), layout.chains.get(pair.b));
      const share = Math.sqrt(pair.channels / widest);
      const thickest = layout.style === 'spokes' ? 4.5 : 7;
      const [title, hit, stroke] = line.children;
      setText(title, `${pair.a} ↔ ${pair.b}: ${describePair(pair)}`);
      set(hit, { d: path });
      set(stroke, { d: path, 'stroke-width': fixed(1.2 + (thickest - 1.2) * share) });
      set(line, {
        class: `line ${pair.isDown ? 'down' : pair.flow}${isOn(pair) ? ' on' : ''}`,
        'aria-label': `${pair.a} and ${pair.b}: ${describePair(pair)}`,
        'aria-selected': pair.key === chosen,
        tabindex: place.other !== '' && pair.key === keyOf(place.chain, place.other) ? 0 : -1,
      });
    },
  );
  drawCounts(model, layout, pairs);
  const near = new Set(model.chainOf.get(view.chain)?.others);
  keep(
    spots,
    model.chains,
    (chain) => chain.id,
    makeSpot,
    (spot, chain) => {
      const at = layout.chains.get(chain.id);
      const isChosen = chain.id === view.chain || chain.id === view.other;
      drawSpot(spot, chain, at, layout, most);
      set(spot, {
        class:
          `spot ${levelOf(chain)}${isChosen ? ' chosen' : ''}` +
          `${isChosen || (view.other === '' && near.has(chain.id)) ? ' on' : ''}`,
        'aria-label': `${chain.id}: ${describeChain(model, chain)}`,
        'aria-selected': view.other === '' && chain.id === view.chain,
        tabindex: place.other === '' && place.chain === chain.id ? 0 : -1,
      });
    },
  );
  if (canvas.parentNode === null) {
    byId('graph').append(canvas);
  }
  drawLegend(model, pairs);
}

// Says whose lines are drawn.
function drawFocus(model, view, focus) {
  const why = focus?.blocked > 0 ? 'blocked workers' : 'workers';
  const which = focus?.id === view.chain ? '' : `, which has the most ${why},`;
  setText(
    byId('focus'),
    focus === undefined || model.pairs.length === 0
      ? ''
      : `Only the lines of ${focus.id}${which} are drawn.`,
  );
}

// Returns the chain or line that the keyboard enters: the chosen one, or the last one.
function placeIn(model, view, focus) {
  for (const { chain, other } of [view, place]) {
    const known = model.chainOf.get(chain);
    if (known !== undefined) {
      return { chain, other: known.others.includes(other) ? other : '' };
    }
  }
  return { chain: focus?.id ?? model.chains[0]?.id ?? '', other: '' };
}

function makeLine(pair) {
  const line = svg(
    'g',
    { role: 'option' },
    svg('title'),
    svg('path', { class: 'hit' }),
    svg('path', { class: 'stroke' }),
  );
  line.addEventListener('click', () => choose(pair.a, pair.b, { isToggle: true }));
  line.addEventListener('focus', () => {
    // Keeps the end from which the keyboard came.
    const [chain, other] = place.chain === pair.b ? [pair.b, pair.a] : [pair.a, pair.b];
    place = { chain, other };
  });
  return line;
}

function makeSpot(chain) {
  const label = svg('g', {}, svg('rect', { class: 'hit' }), svg('text'));
  const cross = svg('path', { class: 'cross', d: 'M-2.5-2.5 2.5 2.5M-2.5 2.5 2.5-2.5' });
  const spot = svg('g', { role: 'option' }, svg('title'), label, svg('circle'), cross);
  spot.addEventListener('click', () => choose(chain.id, '', { isToggle: true }));
  spot.addEventListener('focus', () => {
    place = { chain: chain.id, other: '' };
  });
  spot.addEventListener('pointerenter', () => light(chain.id, true));
  spot.addEventListener('pointerleave', () => light(chain.id, false));
  return spot;
}

function drawSpot(spot, chain, at, layout, most) {
  const [title, label, circle] = spot.children;
  const [hit, text] = label.children;
  const [least, largest] =
    layout.style === 'spokes' ? [3.5, Math.min(8, layout.room / 2)] : [7, 14];
  const share = least + (Math.max(largest, least) - least) * Math.sqrt(chain.workers / most);
  // A chain with a problem is easy to see, even without workers.
  const radius = levelOf(chain) === '' ? share : Math.max(share, MIN_MARKED);
  const put = labelOf(layout, at, radius);
  set(spot, { transform: `translate(${fixed(at.x)} ${fixed(at.y)})` });
  setText(title, `${chain.id}: ${stateOf(chain)}, ${counted(chain.workers, 'worker')}`);
  set(label, { transform: put.turn === 0 ? null : `rotate(${fixed(put.turn)})` });
  set(text, {
    x: fixed(put.x),
    y: fixed(put.y),
    'text-anchor': put.anchor,
    'font-size': layout.font,
  });
  setText(text, at.text);
  set(circle, { r: fixed(radius) });
  // The hit area is as large as the room allows, for touch.
  const high = layout.style === 'spokes' ? Math.max(layout.room, 12) : 44;
  const long = layout.widest + radius + 16;
  const left = { start: -radius - 6, middle: -Math.max(long, 44) / 2, end: radius + 6 - long }[
    put.anchor
  ];
  const top = layout.style === 'spokes' ? 0 : (put.y - layout.font / 3) / 2;
  set(hit, {
    x: fixed(left),
    y: fixed(top - high / 2),
    width: fixed(Math.max(long, 44)),
    height: fixed(high),
  });
}

function drawCounts(model, layout, pairs) {
  keep(
    counts,
    pairs.length <= MAX_COUNTS && layout.style !== 'spokes' ? pairs : [],
    (pair) => pair.key,
    () => svg('text', { class: 'count', 'text-anchor': 'middle' }),
    (text, pair) => {
      const [a, b] = [layout.chains.get(pair.a), layout.chains.get(pair.b)];
      const { top } = bend(layout, a, b);
      const isAlone = model.chains.length === 2;
      set(text, { x: fixed(top.x), y: fixed(top.y + (isAlone ? -12 : 4)) });
      const isLong = isAlone && layout.width > 480;
      setText(text, isLong ? describePair(pair) : counted(pair.workers, 'worker'));
    },
  );
}

// Highlights the lines of the chain under the pointer.
function light(chain, isOn) {
  for (const [key, line] of kept.get(lines) ?? []) {
    line.classList.toggle('lit', isOn && JSON.parse(key).includes(chain));
  }
}

function describePair(pair) {
  const kinds = listed(tally([...pair.there, ...pair.back]));
  return pair.isDown ? `${kinds}, blocked` : kinds;
}

function describeChain(model, chain) {
  if (!model.isKnown) {
    return stateOf(chain);
  }
  const kinds = chain.workers > 0 ? `: ${listed(chain.counts)}` : '';
  const lines = counted(chain.others.length, 'chain');
  return `${stateOf(chain)}; lines to ${lines}; ${counted(chain.workers, 'worker')}${kinds}`;
}

// The legend explains only the styles that occur.
function drawLegend(model, pairs) {
  const has = (flow) => pairs.some((pair) => !pair.isDown && pair.flow === flow);
  const hasLevel = (level) => model.chains.some((chain) => levelOf(chain) === level);
  const entries = [
    ['bad', 'chain not connected', hasLevel('bad')],
    ['warn', 'chain not configured', hasLevel('warn')],
    ['down', 'blocked workers', pairs.some((pair) => pair.isDown)],
    ['both', 'Packet workers both ways', has('both')],
    ['one', 'Packet workers one way only', has('one')],
    ['none', 'no Packet workers', has('none')],
  ];
  const shown = entries.filter(([, , isThere]) => isThere);
  keep(
    byId('legend'),
    shown,
    ([name]) => name,
    ([name, text]) =>
      html('li', {}, html('span', { class: `key ${name}`, 'aria-hidden': 'true' }), text),
    () => {},
  );
  byId('legend').hidden = shown.length === 0;
}

// The keyboard moves through the graph as through a list: the graph is one tab stop.
canvas.addEventListener('keydown', (event) => {
  const { model } = shown;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === 'Enter' || event.key === ' ') {
    choose(place.chain, place.other, { isToggle: true });
  } else if (event.key === 'Escape') {
    choose('', '');
  } else if (step !== undefined && model.chains.length > 0) {
    const isSideways = event.key === 'ArrowRight' || event.key === 'ArrowLeft';
    const ids = model.chains.map((chain) => chain.id);
    const others = [...(model.chainOf.get(place.chain)?.others ?? [])].sort(inOrder);
    if (isSideways) {
      choose(after(ids, place.chain, step), '', { isStep: false });
    } else if (others.length > 0) {
      choose(place.chain, after(others, place.other, step), { isStep: false });
    }
    focusPlace();
  } else {
    return;
  }
  event.preventDefault();
});

function after(list, item, step) {
  const at = list.indexOf(item);
  if (at < 0) {
    return list.at(step > 0 ? 0 : -1);
  }
  return list[(at + step + list.length) % list.length];
}

function focusPlace() {
  const element =
    place.other === ''
      ? kept.get(spots)?.get(place.chain)
      : kept.get(lines)?.get(keyOf(place.chain, place.other));
  element?.focus({ preventScroll: true });
}

// Lays the graph out again for a new width. (A hidden element has none.)
new ResizeObserver(() => {
  if (shown.model !== null && byId('graph').clientWidth > 0) {
    drawGraph(shown.model, shown.view);
  }
}).observe(byId('graph'));
