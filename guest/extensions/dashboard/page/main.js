// The model and the view, and their changes by responses of the server and by the user.

const shown = { model: null, view: viewOfAddress(), confirmed: null, sources: [], telemetry: null };

function take(result) {
  if (result.model !== undefined) {
    shown.model = result.model;
  }
  if (result.status === 'good') {
    shown.confirmed = new Date();
  } else if (result.status === 'not-ready') {
    shown.confirmed = null;
  }
  shown.sources = result.sources ?? shown.sources;
  if (result.telemetry !== undefined) {
    shown.telemetry = result.telemetry;
    drawTelemetry(shown.telemetry);
  }
  drawStatus(shown, problemsOf({ ...shown, result }));
  if (result.model !== undefined) {
    draw();
  }
}

function draw() {
  const { model, view } = shown;
  if (model === null) {
    return;
  }
  if (byId('find').value !== view.find) {
    byId('find').value = view.find;
  }
  drawSummary(model);
  drawGraph(model, view);
  drawChosen(model, view);
  drawTable(model, view);
  drawList(model, view);
  document.body.classList.add('ready');
}

// Changes the view on behalf of the user.
function change(fields, { isStep = false } = {}) {
  shown.view = { ...shown.view, ...fields, page: 0 };
  viewToAddress(shown.view, isStep);
  draw();
}

// Chooses a chain, a pair of chains, or none.
function choose(chain, other, { isStep = true, isToggle = false } = {}) {
  const { view } = shown;
  const isSame = keyOf(chain, other) === keyOf(view.chain, view.other);
  change(isToggle && isSame ? { chain: '', other: '' } : { chain, other }, { isStep });
}

function takeAddress() {
  shown.view = viewOfAddress();
  draw();
}

addEventListener('hashchange', takeAddress);
addEventListener('popstate', takeAddress);
byId('skip').addEventListener('click', (event) => {
  // The fragment of the address is the view, not an element of the page.
  event.preventDefault();
  byId('workers').focus();
});

byId('find').value = shown.view.find;
update();
