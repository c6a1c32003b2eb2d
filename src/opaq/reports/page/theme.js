// Runs before anything is drawn, so that the chosen theme does not flash.
'use strict';
try {
  const theme = localStorage.getItem('opaq-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  /* storage may be closed to files: the system's theme is used */
}
document.documentElement.classList.add('scripted');
