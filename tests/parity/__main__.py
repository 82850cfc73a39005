from tests.parity.run import main

raise SystemExit(main())
