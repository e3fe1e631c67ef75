"""The client side: a Flower client that generates, distils and trains. Imports `common` only."""
