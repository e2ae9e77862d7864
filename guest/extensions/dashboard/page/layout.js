// The layout of the graph: chains are on a circle in the order of their names, so that
// they are easy to find and do not move when lines change.

const pen = document.createElement('canvas').getContext('2d');

function widthOf(text, font) {
  pen.font = `${font}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// Shortens a text in the middle: identifiers often differ at their ends.
function shortened(text, width, font) {
  if (widthOf(text, font) <= width) {
    return text;
  }
  const letters = [...text];
  for (let left = letters.length - 2; left > 2; left -= 1) {
    const head = Math.ceil(left / 2);
    const short = `${letters.slice(0, head).join('')}…${letters.slice(head - left).join('')}`;
    if (widthOf(short, font) <= width) {
      return short;
    }
  }
  return `${letters.slice(0, 2).join('')}…`;
}

// Returns the placement of labels: above or below the chains if there are few, around the
// circle if there are some, and like the spokes of a wheel if there are many or there is
// little room.
function styleOf(count, width) {
  if (count <= 4) {
    return 'below';
  }
  return count <= 14 && width >= 480 ? 'around' : 'spokes';
}

function heightOf(style, count, width) {
  switch (style) {
    case 'below':
      return Math.min(width * 0.7, [0, 160, 200, 320, 380][count]);
    case 'around':
      return Math.min(width * 0.78, 500);
    default:
      return width;
  }
}

function layOut(ids, width) {
  const style = styleOf(ids.length, width);
  const height = Math.round(heightOf(style, ids.length, width));
  const font = style === 'spokes' && (width < 480 || ids.length > 60) ? 10 : 12;
  const most = width * { below: 0.4, around: 0.24, spokes: width < 480 ? 0.2 : 0.18 }[style];
  const labels = ids.map((id) => shortened(id, most, font));
  const widest = Math.max(0, ...labels.map((label) => widthOf(label, font)));
  const centre = { x: width / 2, y: height / 2 };
  const radius = radiusOf(style, widest, centre, ids.length);
  // Two chains are side by side; more begin at the top. Spokes begin next to it, because
  // browsers render exactly vertical texts less well.
  const start = ids.length === 2 ? Math.PI : -Math.PI / 2 + (style === 'spokes' ? 0.02 : 0);
  const chains = ids.map((id, place) => {
    const angle = start + (place * 2 * Math.PI) / ids.length;
    const x = centre.x + radius.x * Math.cos(angle);
    const y = centre.y + radius.y * Math.sin(angle);
    const isAlone = ids.length === 1;
    return { id, x: isAlone ? centre.x : x, y, angle, text: labels[place] };
  });
  // Centres the chains vertically: three are not symmetric.
  const highest = Math.min(...chains.map((chain) => chain.y));
  const lowest = Math.max(...chains.map((chain) => chain.y));
  for (const chain of chains) {
    chain.y += (height - highest - lowest) / 2;
  }
  // The approximate distance from one chain to the next.
  const room = ids.length > 1 ? (2 * Math.PI * Math.min(radius.x, radius.y)) / ids.length : height;
  return {
    style,
    width,
    height,
    font,
    widest,
    centre,
    room,
    chains: new Map(chains.map((chain) => [chain.id, chain])),
  };
}

function radiusOf(style, widest, centre, count) {
  switch (style) {
    case 'below':
      return { x: Math.min(centre.x - widest / 2 - 12, 230), y: count <= 2 ? 0 : centre.y - 48 };
    case 'around': {
      const y = centre.y - 40;
      return { x: Math.min(centre.x - widest - 30, y * 1.3), y };
    }
    default: {
      const both = Math.max(centre.x - widest - 18, 40);
      return { x: both, y: both };
    }
  }
}

// Returns the position of a chain's label, relative to the chain.
function labelOf(layout, chain, radius) {
  const gap = radius + 7;
  const [cos, sin] = [Math.cos(chain.angle), Math.sin(chain.angle)];
  if (layout.style === 'below') {
    return { x: 0, y: sin < -0.5 ? -gap - 3 : gap + layout.font, anchor: 'middle', turn: 0 };
  }
  if (layout.style === 'around') {
    const anchor = Math.abs(cos) < 0.2 ? 'middle' : cos > 0 ? 'start' : 'end';
    const lift = anchor === 'middle' ? (sin < 0 ? -2 : layout.font - 2) : layout.font / 3;
    return { x: gap * cos, y: gap * sin + lift, anchor, turn: 0 };
  }
  const isLeft = cos < -1e-9;
  const turn = (chain.angle * 180) / Math.PI + (isLeft ? 180 : 0);
  return { x: isLeft ? -gap : gap, y: layout.font / 3, anchor: isLeft ? 'end' : 'start', turn };
}

// Returns the path of a line. Lines bend towards the centre, more so if there are many
// chains.
function bend(layout, a, b) {
  const share = layout.style === 'spokes' ? 0.62 : layout.style === 'around' ? 0.3 : 0;
  const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  const x = middle.x + (layout.centre.x - middle.x) * share;
  const y = middle.y + (layout.centre.y - middle.y) * share;
  return {
    path: `M${fixed(a.x)} ${fixed(a.y)}Q${fixed(x)} ${fixed(y)} ${fixed(b.x)} ${fixed(b.y)}`,
    top: { x: (middle.x + x) / 2, y: (middle.y + y) / 2 },
  };
}

const fixed = (number) => number.toFixed(1);
