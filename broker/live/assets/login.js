// Whoever came with the address of a group is brought there: a redirect keeps what follows the # of the form's address.

document.querySelector("form").action = "/login" + location.hash;
