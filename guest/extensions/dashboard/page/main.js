// What is shown, and what changes that: an answer of the server, or whoever
// looks at the page.

const shown = { model: null, view: viewOfAddress() };
let confirmed = null;

function take(answer) {
  if (answer.model !== undefined) {
    shown.model = answer.model;
  }
  if (answer.what === 'good') {
    confirmed = new Date();
  } else if (answer.what === 'not-ready') {
    confirmed = null;
  }
  tellFreshness(answer, confirmed);
  if (answer.model !== undefined) {
    draw();
  }
}

function draw() {
  const { model, view } = shown;
  if (model === null) {
    return;
  }
  drawSummary(model);
  drawGraph(model, view);
  drawChosen(model, view);
  drawTable(model, view);
  drawAsText(model);
  document.body.classList.add('ready');
}

// Whoever looks wants to see something else.
function change(fields, { isStep = false } = {}) {
  shown.view = { ...shown.view, ...fields, page: 0 };
  viewToAddress(shown.view, isStep);
  draw();
}

// A chain, two of them, or none.
function choose(chain, other, { isStep = true, isToggle = false } = {}) {
  const { view } = shown;
  const isSame = keyOf(chain, other) === keyOf(view.chain, view.other);
  change(isToggle && isSame ? { chain: '', other: '' } : { chain, other }, { isStep });
}

function takeAddress() {
  shown.view = viewOfAddress();
  byId('find').value = shown.view.find;
  draw();
}

addEventListener('hashchange', takeAddress);
addEventListener('popstate', takeAddress);
byId('skip').addEventListener('click', (event) => {
  // The address is what is shown, and no place on the page.
  event.preventDefault();
  byId('workers').focus();
});

byId('find').value = shown.view.find;
goOn();
